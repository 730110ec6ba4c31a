// An agent made with @a2a-js/sdk: server.cjs PORT, with JSON-RPC below /jsonrpc and REST below /rest.
const { randomUUID } = require("node:crypto");
const { Role, TaskState } = require("@a2a-js/sdk");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require("@a2a-js/sdk/server");
const { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } = require("@a2a-js/sdk/server/express");
const express = require("express");

const port = Number(process.argv[2]);

function parts(text) {
  return [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }];
}

/** Does what the first word of a message says. */
class Agent {
  cancelled = 0;
  hanging = new Map();

  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    const [word, ...rest] = userMessage.parts[0].content.value.split(" ");
    const message = (text) => ({
      messageId: randomUUID(),
      role: Role.ROLE_AGENT,
      parts: parts(text),
      taskId,
      contextId,
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    });
    if (word === "message") {
      bus.publish(AgentEvent.message({ ...message(`said: ${rest.join(" ")}`), taskId: "" }));
      bus.finished();
      return;
    }
    const status = (state, text) => {
      const said = text === undefined ? undefined : message(text);
      const at = { state, message: said, timestamp: new Date().toISOString() };
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: at, metadata: undefined }));
    };
    const artifact = (text, append = false, lastChunk = true) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: { artifactId: "a", name: "", description: "", parts: parts(text), metadata: undefined, extensions: [] },
          append,
          lastChunk,
          metadata: undefined,
        }),
      );
    const submitted = { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() };
    const fresh = { id: taskId, contextId, status: submitted, artifacts: [], history: [userMessage], metadata: undefined };
    bus.publish(AgentEvent.task(context.task ?? fresh));
    status(TaskState.TASK_STATE_WORKING);
    if (word === "ask") {
      status(TaskState.TASK_STATE_INPUT_REQUIRED, "which colour?");
    } else if (word === "fail") {
      status(TaskState.TASK_STATE_FAILED, "out of paper");
    } else if (word === "hang") {
      artifact("hanging");
      await new Promise((resolve) => this.hanging.set(taskId, resolve));
      status(TaskState.TASK_STATE_CANCELED);
    } else {
      if (word === "stream") {
        for (let i = 0; i < 3; i++) artifact(`chunk${i} `, i > 0, i === 2);
      } else {
        artifact(word === "cancelled" ? `${this.cancelled} cancelled` : `did: ${word}`);
      }
      status(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  }

  async cancelTask(taskId) {
    this.cancelled += 1;
    this.hanging.get(taskId)?.();
  }
}

const agent = new Agent();
const app = express();
const userBuilder = UserBuilder.noAuthentication;
for (const [path, protocolBinding, handler] of [
  ["/jsonrpc", "JSONRPC", jsonRpcHandler],
  ["/rest", "HTTP+JSON", restHandler],
]) {
  const card = {
    name: "js",
    description: "Made with @a2a-js/sdk.",
    version: "1",
    supportedInterfaces: [{ url: `http://127.0.0.1:${port}${path}`, protocolBinding, tenant: "", protocolVersion: "1.0" }],
    provider: undefined,
    capabilities: { streaming: true, extensions: [] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    skills: [
      {
        id: "paint",
        name: "Paint",
        description: "Paints.",
        tags: [],
        examples: [],
        inputModes: [],
        outputModes: [],
        securityRequirements: [],
      },
    ],
    signatures: [],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), agent);
  app.use(`${path}/.well-known/agent-card.json`, agentCardHandler({ agentCardProvider: requestHandler }));
  app.use(path, handler({ requestHandler, userBuilder }));
}
app.listen(port, "127.0.0.1", () => console.log(`running on ${port}`));
