package extract

import (
	"encoding/json"
	"fmt"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// SchemaVersion of the answer.
const SchemaVersion = "entities/1"

// prompt is how entities are asked for.
type prompt struct {
	version  string // part of ledger keys: another one pays for every chunk
	system   string
	before   string // the text, in the user's message
	reminder string
	schema   json.RawMessage
}

// promptOf returns the product's prompt for a text, with the language to describe in. Under parity it has the
// reference's jobs, places and names of fields, in other words; the list stands in an object, as a response format
// demands.
func promptOf(spec core.Spec, text string) prompt {
	if spec.Parity {
		return likeReference
	}
	out := ours
	sentence, version := model.NameLanguage(spec.WritingLanguage(), text)
	out.system, out.version = out.system+sentence, out.version+version
	return out
}

var ours = prompt{
	version: "extract/1",
	system: `You list the key entities of a text for a search index.
Name every person, organisation, place, product, work, event, substance, method, quantity of note, defined term and ` +
		`concept that the text says something about; as many as are needed to cover its important information.
Write each name as the text writes it, in its fullest form, without articles.
Describe each entity in at most three sentences, from this text alone: what it is, what it does, and how it ` +
		`relates to other things named here. Write full names instead of pronouns.
Answer with JSON only: {"entities":[{"name":"...","description":"..."}]}`,
	reminder: reminderOf("name", "description"),
	schema:   schemaOf("name", "description"),
}

var likeReference = prompt{
	version: "extract/parity/1",
	before: `Which entities matter most in the text below? List them, each with a description.
A description says what the entity is in itself, what it is there for, and how it is connected with other objects; ` +
		`three sentences are enough. Take it from this text alone.
Go on until everything important in the text belongs to some entity.
Answer with JSON only: {"entities":[{"entity_name":"...","entity_description":"..."}]}` + model.TextFollows,
	reminder: reminderOf("entity_name", "entity_description"),
	schema:   schemaOf("entity_name", "entity_description"),
}

func reminderOf(name, description string) string {
	return fmt.Sprintf("\n\nAnswer again with nothing but one valid JSON object of the form "+
		`{"entities":[{"%s":"...","%s":"..."}]}.`, name, description)
}

func schemaOf(name, description string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"entities":{"type":"array","items":`+
		`{"type":"object","properties":{"%[1]s":{"type":"string"},"%[2]s":{"type":"string"}},`+
		`"required":["%[1]s","%[2]s"],"additionalProperties":false}}},`+
		`"required":["entities"],"additionalProperties":false}`, name, description))
}

// call returns the request for a chunk of a document.
func (p prompt) call(document, text string) model.Call {
	return model.Call{
		Task: model.Extract, System: p.system, User: p.before + text, Schema: p.schema, Input: text, Ref: document,
	}
}

// countTokens counts the tokens of what is sent beside a chunk.
func (p prompt) countTokens() int64 { return int64(tokens.Count(p.system + p.before)) }
