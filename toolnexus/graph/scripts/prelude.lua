-- What a script finds before it starts, and what stops it. Returns run, and what makes an empty list.
local error, getmetatable, load, next, pcall = error, getmetatable, load, next, pcall
local rawget, select, setmetatable, tonumber, tostring, type = rawget, select, setmetatable, tonumber, tostring, type
local sethook = debug.sethook
local find, format, gsub, sub = string.find, string.format, string.gsub, string.sub
local concat, pack, sort, unpack = table.concat, table.pack, table.sort, table.unpack
local floor, huge, mathtype = math.floor, math.huge, math.type
local resume, cocreate, coclose, costatus = coroutine.resume, coroutine.create, coroutine.close, coroutine.status

local STEPS = 1000 -- instructions between two looks at the clock
local STOP = {}

local over -- a function of the host: whether the script has to end
local dead = false
local function hook()
  if dead or over() then
    dead = true
    sethook(hook, "", 1) -- from now on at every instruction: nothing can swallow it
    error(STOP, 0)
  end
end

local function stop()
  dead = true
  return hook()
end

local function after(...)
  if dead then stop() end
  return ...
end

-- JSON ---------------------------------------------------------------------------------------------

local ESCAPES = {}
for i = 0, 31 do ESCAPES[string.char(i)] = format("\\u%04x", i) end
for raw, short in next, {['"'] = '"', ["\\"] = "\\", ["\n"] = "n", ["\r"] = "r", ["\t"] = "t"} do
  ESCAPES[raw] = "\\" .. short
end

-- lists of the host that are empty: by their shape they could be maps
local lists = setmetatable({}, {__mode = "k"})
local function list()
  local t = {}
  lists[t] = true
  return t
end

local function number(v)
  if mathtype(v) == "integer" then return format("%d", v) end
  if v ~= v or v == huge or v == -huge then return "null" end
  if v == floor(v) and v > -2^53 and v < 2^53 then return format("%d", v) end
  local short = format("%.15g", v)
  return tonumber(short) == v and short or format("%.17g", v)
end

local function text(s)
  return '"' .. gsub(s, '[%z\1-\31"\\]', ESCAPES) .. '"'
end

local function key(k)
  if type(k) == "string" then return k end
  if mathtype(k) == "integer" then return format("%d", k) end
  error("a key of the type " .. type(k) .. " is not JSON", 0)
end

-- the length of a table that is a list, at least half of it filled; nil for a map
local function length(t)
  local count, last = 0, 0
  for k in next, t do
    if mathtype(k) ~= "integer" or k < 1 then return nil end
    count = count + 1
    if k > last then last = k end
  end
  if count == 0 then return lists[t] and 0 or nil end
  return last <= 2 * count and last or nil
end

local encode
local function encode_table(t, out, above)
  if above[t] then error("a table that holds itself is not JSON", 0) end
  above[t] = true
  local n = length(t)
  if n then
    out[#out + 1] = "["
    for i = 1, n do
      if i > 1 then out[#out + 1] = "," end
      encode(rawget(t, i), out, above)
    end
    out[#out + 1] = "]"
  else
    local keys, values = {}, {}
    for k, v in next, t do
      local name = key(k)
      if values[name] ~= nil then error("two keys " .. text(name) .. " of a table are the same in JSON", 0) end
      keys[#keys + 1] = name
      values[name] = v
    end
    sort(keys)
    out[#out + 1] = "{"
    for i = 1, #keys do
      out[#out + 1] = (i > 1 and "," or "") .. text(keys[i]) .. ":"
      encode(values[keys[i]], out, above)
    end
    out[#out + 1] = "}"
  end
  above[t] = nil
end

function encode(v, out, above)
  local kind = type(v)
  if kind == "table" then return encode_table(v, out, above) end
  if kind == "string" then out[#out + 1] = text(v)
  elseif kind == "number" then out[#out + 1] = number(v)
  elseif kind == "boolean" or v == nil then out[#out + 1] = v == nil and "null" or tostring(v)
  else error("a " .. kind .. " is not JSON", 0) end
end

local function arguments(self, ...)
  local first = select("#", ...) > 0 and rawequal((...), self) and 2 or 1 -- object:method() as well
  local given, out = pack(...), {"["}
  for i = first, given.n do
    if i > first then out[#out + 1] = "," end
    encode(given[i], out, {})
  end
  out[#out + 1] = "]"
  return concat(out)
end

-- the host -----------------------------------------------------------------------------------------

local call -- a function of the host
local errors = {} -- by text: an error is a string, and still knows its kind

local function fail(returns, kind, message, id)
  errors[message] = {kind = kind, message = message, id = id}
  if returns == "err" then return message end
  if returns == "value, err" then return nil, message end
  error(message, 2) -- the script: this is a tail call
end

local object
local function method(self, path, returns)
  return function(...)
    if dead then stop() end
    local ok, args = pcall(arguments, self, ...)
    if dead then stop() end
    if not ok then return fail(returns, "validation", path .. ": " .. tostring(args)) end
    local what, value, more, id = call(path, args)
    if what == "stop" then stop() end
    if what == "memory" then error("not enough memory", 2) end
    if what == "err" then return fail(returns, value, more, id) end
    if what == "handle" then value = object({}, value, more) end
    if returns == "err" then return nil end
    if returns == "value, err" then return value, nil end
    return value
  end
end

function object(self, path, methods)
  for i = 1, #methods do
    self[methods[i][1]] = method(self, path .. "." .. methods[i][1], methods[i][2])
  end
  return self
end

-- the globals --------------------------------------------------------------------------------------

local function copy(lib, but)
  local out = {}
  for k, v in next, lib do if k ~= but then out[k] = v end end
  return out
end

local function environment()
  local env = {string = copy(string, "dump"), table = copy(table), math = copy(math), utf8 = copy(utf8)}
  for _, name in ipairs {
    "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen", "rawset",
    "select", "tonumber", "tostring", "type", "_VERSION",
  } do
    env[name] = _G[name]
  end
  env._G = env
  env.print = function() end
  env.pcall = function(...) return after(pcall(...)) end
  -- the handler runs after the error and not inside of it, where no clock can stop it
  env.xpcall = function(f, handler, ...)
    local got = pack(after(pcall(f, ...)))
    if not got[1] then got = pack(after(pcall(handler, got[2]))) got[1] = false end
    return unpack(got, 1, got.n)
  end
  env.setmetatable = function(t, meta)
    if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
      error("__gc is not available: finalizers run where no clock can stop them", 2)
    end
    return setmetatable(t, meta)
  end
  local co = copy(coroutine)
  env.coroutine = co
  co.create = function(f)
    local made = cocreate(f)
    sethook(made, hook, "", STEPS)
    return made
  end
  co.resume = function(...) return after(resume(...)) end
  co.close = function(...) return after(coclose(...)) end
  local function unwrap(ok, ...)
    if ok then return ... end
    error((...), 0)
  end
  co.wrap = function(f)
    local made = co.create(f)
    return function(...) return unwrap(after(resume(made, ...))) end
  end
  local strings = env.string
  local meta = getmetatable("")
  meta.__metatable = false
  meta.__index = function(s, k)
    local err = errors[s]
    if err and (k == "kind" or k == "message") then return err[k] end
    return strings[k]
  end
  return env
end

-- what an uncaught error says, and the error of the host that it was, if any
local function uncaught(e)
  if type(e) == "table" and type(rawget(e, "message")) == "string" then e = rawget(e, "message") end
  if type(e) ~= "string" then e = tostring(e) end
  local rest = e
  while rest do
    if errors[rest] then return e, errors[rest] end
    local _, last = find(rest, ":%d+: ")
    rest = last and sub(rest, last + 1)
  end
  return e
end

-- in a thread of its own, so that the hook is not ours
local function guarded(f, ...)
  local made = cocreate(f)
  sethook(made, hook, "", STEPS)
  local got = pack(resume(made, ...))
  return costatus(made), unpack(got, 1, got.n)
end

local function run(source, name, surface, constants, config, host, expired)
  call, over = host, expired
  local env = environment()
  for global, methods in next, surface do
    env[global] = type(methods) == "string" and method({}, global, methods) or object({}, global, methods)
  end
  for global, values in next, constants do
    if type(env[global]) == "table" and type(values) == "table" then
      for k, v in next, values do env[global][k] = v end
    else
      env[global] = values
    end
  end
  env.signal = object({}, "signal", {{"done"}, {"error"}, {"interrupt"}})
  env.config = config
  local main, problem = load(source, "=" .. name, "t", env)
  if not main then return problem, nil, nil end
  local status, ok, e = guarded(main)
  if status == "suspended" then ok, e = false, "attempt to yield from outside a coroutine" end
  if dead or ok then return end
  local _, told, said, err = guarded(uncaught, e)
  if dead then return end
  if not told then said = "an error that cannot be told" end
  return said, err and err.kind, err and err.id
end

return run, list
