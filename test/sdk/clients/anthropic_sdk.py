import os
from anthropic import Anthropic, beta_tool

word = os.environ["WORD"]
client = Anthropic(base_url=os.environ["TOLLGATE_URL"].removesuffix("/v1"), api_key=os.environ["TOLLGATE_KEY"])
ask = {"model": "demo-chat", "max_tokens": 300}
tool = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
question = {"role": "user", "content": "Get weather of Bonn"}

first = client.messages.create(messages=[question], tools=[tool], **ask)
call = next(block for block in first.content if block.type == "tool_use")
result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": word}]}
messages = [question, {"role": "assistant", "content": first.content}, result]
with client.messages.stream(messages=messages, **ask) as stream:
    for text in stream.text_stream:
        print(text, end="")
print()

# silent for longer than the gateway leaves a stream silent: it sends pings
with client.messages.stream(model="demo-slow", max_tokens=300, messages=[{"role": "user", "content": word}]) as stream:
    assert stream.get_final_text() != ""


@beta_tool
def get_weather(city: str) -> str:
    """Weather of a city"""
    return word


runner = client.beta.messages.tool_runner(messages=[question], tools=[get_weather], **ask)
assert word in runner.until_done().content[0].text
assert client.messages.count_tokens(model="demo-chat", messages=messages).input_tokens > 0
