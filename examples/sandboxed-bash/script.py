"""What the model says when no real one is set."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    [
        reply(
            "",
            call("bash", id="inside", command="echo hello > inside.txt && cat inside.txt"),
            call("bash", id="outside", command="echo hello > ../outside.txt && ls .."),
            call("bash", id="network", command="exec 3<>/dev/tcp/127.0.0.1/$DEMO_PORT && echo connected"),
        ),
        "Only what stays in the folder can be kept, and nobody answers.",
    ],
    name="a script (set TOOLNEXUS_MODEL for a real one)",
)
