// What a script finds before it starts. Nothing here may use what the script can replace later.
(() => {
  "use strict";
  const take = (name) => {
    const value = globalThis[name];
    delete globalThis[name];
    return value;
  };
  const call = take("call"), uncaught = take("uncaught");
  const { parse, stringify } = JSON;
  const { source, direct, config, surface, constants } = parse(take("job"));
  const { defineProperty, freeze } = Object;
  const evaluate = eval, Plain = Error;

  // never by assignment: a setter of the script would get it
  const set = (object, name, value) => defineProperty(object, name, { __proto__: null, value, enumerable: true });

  class Failure extends Error {
    #origin; // what a script can neither read nor forge
    constructor(kind, message, id) {
      super(message);
      this.#origin = [kind, id];
      set(this, "kind", kind);
    }
    static origin(e) {
      return #origin in e ? e.#origin : undefined;
    }
  }
  set(Failure.prototype, "constructor", Plain);
  const originOf = Failure.origin;

  const unfit = (path, why) => new Failure("validation", `${path}: the arguments are not JSON${why}`, null);

  const method = (path) => (...args) => {
    let text;
    try {
      text = stringify(args);
    } catch (e) {
      throw unfit(path, `: ${e?.message}`);
    }
    if (typeof text !== "string" || text[0] !== "[") throw unfit(path, "");
    const reply = parse(call(path, text)); // a list: what it lacks is not looked up in a prototype
    if (reply[0] === "err") throw new Failure(reply[1], reply[2], reply[3]);
    return reply[0] === "handle" ? object(reply[1], reply[2]) : reply[1];
  };

  const object = (path, methods) => {
    const made = {};
    for (let i = 0; i < methods.length; i++) set(made, methods[i][0], method(`${path}.${methods[i][0]}`));
    return freeze(made);
  };

  for (const name in surface) {
    const methods = surface[name];
    globalThis[name] = typeof methods === "string" ? method(name) : object(name, methods);
  }
  for (const name in constants) {
    const value = constants[name];
    const plain = typeof value !== "object" || value === null || Array.isArray(value);
    globalThis[name] = plain ? value : freeze({ ...globalThis[name], ...value });
  }
  globalThis.signal = object("signal", [["done"], ["error"], ["interrupt"]]);
  globalThis.config = config;

  return (async () => {
    try {
      const value = evaluate(direct ? source : `(function(){${source}\n})`);
      await (direct ? value : value());
    } catch (e) {
      if (typeof e === "object" && e !== null) {
        const origin = originOf(e);
        if (origin) uncaught(origin[0], origin[1]);
        else if (!(e instanceof Plain)) throw new Plain(stringify(e));
      }
      throw e;
    }
  })();
})()
