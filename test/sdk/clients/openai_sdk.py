import os
from openai import OpenAI

word = os.environ["WORD"]
client = OpenAI(base_url=os.environ["TOLLGATE_URL"], api_key=os.environ["TOLLGATE_KEY"])
tool = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
question = {"role": "user", "content": "Get weather of Bonn"}

# the loop of every tutorial, without asking for the usage
for chunk in client.chat.completions.create(model="demo-chat", stream=True, messages=[{"role": "user", "content": word}]):
    print(chunk.choices[0].delta.content or "", end="")
print()

# silent for longer than the gateway leaves a stream silent: it sends keepalives
text = ""
for chunk in client.chat.completions.create(model="demo-slow", stream=True, messages=[{"role": "user", "content": word}]):
    text += chunk.choices[0].delta.content or ""
assert text != ""
with client.responses.stream(model="demo-slow", input=word) as stream:
    assert stream.get_final_response().output_text != ""

first = client.chat.completions.create(
    model="demo-chat", messages=[question], tools=[{"type": "function", "function": tool}]
).choices[0].message
result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": word}
second = client.chat.completions.create(model="demo-chat", messages=[question, first, result])
assert word in second.choices[0].message.content

answer = client.responses.create(model="demo-chat", input=[question], tools=[{"type": "function", **tool}])
call = next(item for item in answer.output if item.type == "function_call")
result = {"type": "function_call_output", "call_id": call.call_id, "output": word}
with client.responses.stream(model="demo-chat", input=[question, call, result]) as stream:
    assert word in stream.get_final_response().output_text

assert len(client.embeddings.create(model="demo-embedding", input=["a", "b"]).data) == 2
assert "demo-chat" in [model.id for model in client.models.list()]
