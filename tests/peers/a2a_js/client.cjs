// What a caller made with @a2a-js/sdk sees of an agent, as JSON: client.cjs URL TOKEN BINDING.
const { randomUUID } = require("node:crypto");
const { Role, TaskState } = require("@a2a-js/sdk");
const {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} = require("@a2a-js/sdk/client");

const [url, token, binding] = process.argv.slice(2);

function request(text, task, configuration) {
  const message = {
    messageId: randomUUID(),
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    taskId: task?.id ?? "",
    contextId: task?.contextId ?? "",
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  return { tenant: "", message, configuration, metadata: undefined };
}

function texts(parts) {
  return parts.flatMap((part) => (part.content.$case === "text" ? [part.content.value] : [])).join("");
}

function seen(task) {
  const state = TaskState[task.status.state].replace("TASK_STATE_", "").toLowerCase().replace("_", "-");
  const text = task.artifacts.map((artifact) => texts(artifact.parts)).join("");
  return { state, text, said: texts(task.status.message?.parts ?? []) };
}

async function client(headers) {
  let status = 0;
  const fetchImpl = async (input, init) => {
    const response = await fetch(input, { ...init, headers: { ...init?.headers, ...headers } });
    status = response.status;
    return response;
  };
  const made = await new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [binding],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  }).createFromUrl(url);
  return { made, status: () => status };
}

async function main() {
  const { made } = await client({ authorization: `Bearer ${token}` });
  const send = (text, task, configuration) => made.sendMessage(request(text, task, configuration));
  const card = await made.getAgentCard();
  const out = { name: card.name, skills: card.skills.map((skill) => skill.name) };
  out.plain = seen(await send("hello"));

  const kinds = new Set();
  let id;
  for await (const event of made.sendMessageStream(request("hello"))) {
    const { $case, value } = event.payload;
    kinds.add($case.replace("Update", "-update"));
    id = $case === "task" ? value.id : id;
  }
  out.kinds = [...kinds].sort();
  out.streamed = seen(await made.getTask({ tenant: "", id }));

  const waiting = await send("pay ann");
  out.asked = seen(waiting);
  out.answered = seen(await send("yes", waiting));

  const running = await send("call hang", undefined, {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    returnImmediately: true,
  });
  out.cancelled = seen(await made.cancelTask({ tenant: "", id: running.id, metadata: undefined }));

  const stranger = await client({});
  out.stranger = await stranger.made.sendMessage(request("hello")).then(
    () => "let in",
    () => stranger.status(),
  );
  console.log(JSON.stringify(out));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
