"""`toolnexus demo`: the main job, with a scripted model and everything else real."""
