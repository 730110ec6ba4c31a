var ok = expr.eval("score > 0.5 && !done", { score: 0.8, done: false });
board.setVar("ok", ok);
