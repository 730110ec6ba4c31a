from toolnexus import Client

with Client(model="openai:gpt-5-mini", builtins=False) as client:
    result = client.ask_sync("In one sentence: what does a sub-agent do for you?")
    print(result.text)
