package extract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/text/entitytype"
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
	if own := spec.OwnRequest(); !own.IsEmpty() {
		out = addRequest(own)
	}
	sentence, version := model.NameLanguage(spec.WritingLanguage(), text)
	out.system, out.version = out.system+sentence, out.version+version
	return out
}

// versionOf returns the version of the prompt for a text, as promptOf does, without the prompt.
func versionOf(spec core.Spec, text string) string {
	return versionWith(spec, ownVersion(spec.OwnRequest()), text)
}

// versionWith returns what versionOf does, with the ownVersion of another request than the specification's.
func versionWith(spec core.Spec, own, text string) string {
	if spec.Parity {
		return likeReference.version
	}
	_, language := model.NameLanguage(spec.WritingLanguage(), text)
	return ours.version + own + language
}

// ownVersion returns what the version of a prompt has of what an index adds: all of it may change an answer.
func ownVersion(own core.Request) string {
	if own.IsEmpty() {
		return ""
	}
	return "/own/" + own.Digest().String()[:32]
}

// addRequest returns the product's prompt with what an index adds to it.
func addRequest(own core.Request) prompt {
	out := ours
	out.version += ownVersion(own)
	form := formOf("name", "description")
	var added strings.Builder
	if len(own.Types) > 0 {
		form = formOf("name", "type", "description")
		fmt.Fprintf(&added, "Give each entity one of these types: %s.\nName every entity of these types that the text "+
			"mentions. An entity of none of them has the type %s.\n", strings.Join(own.Types, "; "), entitytype.NoType)
		out.reminder = reminderOf(form)
		out.schema = typedSchema(own.Types)
	}
	if own.Guidance != "" {
		fmt.Fprintf(&added, "About these texts:\n%s\n", own.Guidance)
	}
	if own.Examples != "" {
		fmt.Fprintf(&added, "Examples of texts with their entities:\n%s\n", own.Examples)
	}
	out.system = words + "\n" + added.String() + onlyJSON + form
	return out
}

// words are the product's own, and onlyJSON what stands before the form of an answer.
const (
	words = `You list the key entities of a text for a search index.
Name every person, organisation, place, product, work, event, substance, method, quantity of note, defined term and ` +
		`concept that the text says something about; as many as are needed to cover its important information.
Write each name as the text writes it, in its fullest form, without articles.
Describe each entity in at most three sentences, from this text alone: what it is, what it does, and how it ` +
		`relates to other things named here. Write full names instead of pronouns.`
	onlyJSON = "Answer with JSON only: "
)

var ours = prompt{
	version:  "extract/1",
	system:   words + "\n" + onlyJSON + formOf("name", "description"),
	reminder: reminderOf(formOf("name", "description")),
	schema:   schemaOf("name", "description"),
}

var likeReference = prompt{
	version: "extract/parity/1",
	before: `Which entities matter most in the text below? List them, each with a description.
A description says what the entity is in itself, what it is there for, and how it is connected with other objects; ` +
		`three sentences are enough. Take it from this text alone.
Go on until everything important in the text belongs to some entity.
Answer with JSON only: {"entities":[{"entity_name":"...","entity_description":"..."}]}` + model.TextFollows,
	reminder: reminderOf(formOf("entity_name", "entity_description")),
	schema:   schemaOf("entity_name", "entity_description"),
}

// formOf returns the form of an answer as a prompt shows it.
func formOf(fields ...string) string {
	return `{"entities":[{"` + strings.Join(fields, `":"...","`) + `":"..."}]}`
}

func reminderOf(form string) string {
	return "\n\nAnswer again with nothing but one valid JSON object of the form " + form + "."
}

// typedSchema returns the schema of an answer whose entities have one of some types, or none.
func typedSchema(types []string) json.RawMessage {
	names, err := json.Marshal(append(slices.Clone(types), entitytype.NoType))
	if err != nil {
		panic("extract: types: " + err.Error()) // texts always marshal
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"entities":{"type":"array","items":`+
		`{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string","enum":%s},`+
		`"description":{"type":"string"}},"required":["name","type","description"],"additionalProperties":false}}},`+
		`"required":["entities"],"additionalProperties":false}`, names))
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
