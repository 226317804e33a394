"""Asks a server with OpenAI's client and LangChain, as programs do that know no other form. Argument: its /v1."""
import sys

import openai
from langchain_openai import ChatOpenAI
from openai import OpenAI

base = sys.argv[1]
client = OpenAI(base_url=base, api_key="none", max_retries=0)
question = [{"role": "user", "content": "What is the capital of Norway?"}]

models = [model.id for model in client.models.list()]
assert models == ["unweaver/sample"], models
assert client.models.retrieve("unweaver/sample").id == "unweaver/sample"

whole = client.chat.completions.create(
    model="unweaver/sample", messages=question, temperature=0, extra_body={"unweaver": {"top_chunks": 3}}
)
answer = whole.choices[0].message
assert "Oslo" in answer.content and whole.choices[0].finish_reason == "stop", answer
cited = answer.annotations[0].url_citation
assert answer.annotations[0].type == "url_citation" and 0 <= cited.start_index < cited.end_index <= len(answer.content)
assert answer.annotations[0].unweaver["document"] == "cities/oslo.txt", answer.annotations
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

talk = [{"role": "user", "content": "What is the capital of Sweden?"}, {"role": "assistant", "content": "Stockholm."},
        {"role": "user", "content": "And of Norway?"}]
for said in (client.chat.completions.create(model="unweaver/sample", messages=talk).choices[0].message.annotations[0],
             client.responses.create(model="unweaver/sample", input=talk).output[0].content[0].annotations[0]):
    assert said.unweaver["document"] == "cities/oslo.txt", said

text, ended, annotations, usage = "", None, None, None
for chunk in client.chat.completions.create(
    model="unweaver/sample", messages=question, stream=True, stream_options={"include_usage": True}
):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
        ended = choice.finish_reason or ended
        annotations = getattr(choice.delta, "annotations", None) or annotations
assert text == answer.content and ended == "stop" and usage is not None, (text, ended, usage)
assert annotations[0]["unweaver"]["document"] == "cities/oslo.txt", annotations

with client.chat.completions.stream(model="unweaver/sample", messages=question) as stream:
    final = stream.get_final_completion()
assert final.choices[0].message.content == answer.content

for refused, wish in ((openai.NotFoundError, {"model": "unweaver/none"}), (openai.BadRequestError, {"n": 2}),
                      (openai.UnprocessableEntityError, {"extra_body": {"unweaver": {"method": "magic"}}})):
    try:
        client.chat.completions.create(**{"model": "unweaver/sample", "messages": question, **wish})
    except refused as error:
        assert error.body["message"] and error.code, error.body
    else:
        raise AssertionError(f"{wish} is not refused")

chain = ChatOpenAI(model="unweaver/sample", base_url=base, api_key="none")
assert "Oslo" in chain.invoke("What is the capital of Norway?").content
assert "Oslo" in "".join(piece.content for piece in chain.stream("What is the capital of Norway?"))
print("openai", openai.__version__, "and langchain-openai read it")
