"""The operations of an OpenAPI document as tools, against a small shop that runs in this process.

What to look at: the key is never asked of the model and stands in nothing that it reads; an operation
that the filter leaves out is not there; what does not fit the document is refused before it is sent.
"""

import asyncio
import os
from pathlib import Path
from threading import Thread

import server
from script import scripted

from toolnexus import Client, openapi_tools

HERE = Path(__file__).parent


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    os.environ.setdefault("SHOP_KEY", "key-of-this-example")
    shop = server.start()
    Thread(target=shop.serve_forever, daemon=True).start()
    tools = openapi_tools(
        HERE / "shop.yaml",
        base_url=f"http://127.0.0.1:{shop.server_port}/v1",
        headers={"X-Shop-Key": "${SHOP_KEY}"},
        filter={"clearStock": False},
    )
    try:
        async with Client(model=model, builtins=False, tools=tools) as client:
            for tool in client.toolkit:
                print(f"tool {tool.name}: {tool.description} {list(tool.input_schema['properties'])}")
            result = await client.ask("Order five teas of the kind of which there are enough.")
    finally:
        shop.shutdown()
        shop.server_close()

    for answer in (answer for message in result.messages for answer in message.tool_results):
        print("  " + " ".join(answer.output.split()))
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
