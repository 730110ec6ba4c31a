// nodes/finalize.js
var last = board.lastMessage(board.MAIN_CHANNEL);
if (last) board.setVar("summary", last.content.parts[0].text);
host.emit("token", "done: " + run.get_run_id());
