package extract

import "encoding/json"

// Prompt is the version of the extraction prompt; a new one pays for every chunk anew.
// extract/1: first form.
const Prompt = "extract/1"

// SchemaVersion of the answer.
const SchemaVersion = "entities/1"

const system = `You list the key entities of a text for a search index.
Name every person, organisation, place, product, work, event, substance, method, quantity of note, defined term and ` +
	`concept that the text says something about; as many as are needed to cover its important information.
Write each name as the text writes it, in its fullest form, without articles.
Describe each entity in at most three sentences, from this text alone: what it is, what it does, and how it ` +
	`relates to other things named here. Write full names instead of pronouns.
Answer with JSON only: {"entities":[{"name":"...","description":"..."}]}`

const reminder = "\n\nAnswer again with nothing but one valid JSON object of the form " +
	"{\"entities\":[{\"name\":\"...\",\"description\":\"...\"}]}."

var schema = json.RawMessage(
	`{"type":"object","properties":{"entities":{"type":"array","items":` +
		`{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"}},` +
		`"required":["name","description"],"additionalProperties":false}}},` +
		`"required":["entities"],"additionalProperties":false}`,
)
