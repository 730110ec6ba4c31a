"""What the model says when no real one is set: the reviewer tries what its file does not give it."""

from toolnexus.testing import ScriptedModel, call, reply

COUNT = call("bash", command="wc -w < notes.txt")

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                call("task", id="re", agent="reviewer", prompt="Read notes.txt and count its words with wc."),
                call("task", id="ru", agent="runner", prompt="Run: wc -w < notes.txt"),
            ),
            "The notes have 5 words and name no time of day. The reviewer has no bash; the runner counted.",
        ],
        "main/reviewer.re": [
            reply(call("read", path="notes.txt"), COUNT),
            "No time of day is given. I cannot count: I have no bash.",
        ],
        "main/runner.ru": [reply(COUNT), "5 words."],
    },
)
