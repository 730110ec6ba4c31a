local pending = host.drainSteer()
local err = board.appendChannel(board.MAIN_CHANNEL, pending); if err then error(err) end
