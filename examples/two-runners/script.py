"""What the models say when no real ones are set."""

from toolnexus.testing import ScriptedModel

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={"paper/translator.*": ["Le bac ne circule pas dimanche."]},
)
second = ScriptedModel(
    name="another script",
    by_path={
        "paper/drafter.*": ["No ferry across the sound this Sunday"],
        "paper/shortener.*": ["No ferry Sunday"],
    },
)
