"""Agent Skills: instructions in folders (`SKILL.md`) or given as data, loaded on demand.

A skill is text that a model reads when a task needs it. One tool, `skill`, hands it out; the
catalog in the system prompt says which there are.
"""

from toolnexus.tools.skills.definition import SkillDef
from toolnexus.tools.skills.load import SkillIssue, load_skills
from toolnexus.tools.skills.source import SkillProvider, SkillSet, SkillSource, skill_source

__all__ = [
    "SkillDef",
    "SkillIssue",
    "SkillProvider",
    "SkillSet",
    "SkillSource",
    "load_skills",
    "skill_source",
]
