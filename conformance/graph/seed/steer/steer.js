var pending = host.drainSteer();
board.appendChannel(board.MAIN_CHANNEL, pending);
