var resp = inference.route({
  context: board.channel(board.MAIN_CHANNEL).slice(0, -1),
  input: {
    role: "user",
    content: {
      content: "summarize the workspace",
      intent: { text: { tools: tools.definitions() } },
    },
  },
});
if (resp.finish_reason === "tool_calls") {
  // pull tool_call parts off resp.message, call tools.callAll, loop
  var calls = resp.message.content.parts.filter((part) => part.type === "tool_call").map((part) => part.call);
  board.setVar("called", tools.callAll(calls).map((result) => result.parts[0].text));
}
board.setVar("reason", resp.finish_reason);
