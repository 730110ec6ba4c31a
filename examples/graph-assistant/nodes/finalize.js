var last = board.lastMessage(board.MAIN_CHANNEL);
board.setVar("summary", last.content.parts[0].text);
host.emit("token", "done: " + board.channelLen(board.MAIN_CHANNEL) + " messages");
