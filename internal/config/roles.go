package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Roles of chat models that may have a model of their own, the judge last: it is part of no index. The keys of each are
// those of models.chat.
var Roles = []string{
	core.RoleExtraction, core.RoleShortening, core.RoleTriples, core.RoleAnswer, core.RoleVision,
	core.RoleJudge,
}

// roleOf returns what the file says of a role.
func (m *Models) roleOf(role string) *core.ChatModel {
	field, _ := findField(reflect.ValueOf(m).Elem(), role)
	return field.Addr().Interface().(*core.ChatModel) //nolint:forcetypeassert // those of Roles are
}

// ModelOf returns the chat model of a role for an index: models.chat, then the role's keys, then those that the index
// sets for the role. No key goes to another server and no price to another model: keys that name a server start from
// the defaults without a key, and keys that name a model have no price but their own. A role's key without a server of
// its own is for the server of the general models.chat, so an index whose models.chat names another does not use it.
// Pages of documents go to models.vision alone: it starts from the defaults, and not from models.chat.
func (c *Config) ModelOf(index, role string) core.ChatModel {
	return c.roleOver(c.modelsOf(index).Chat, index, role)
}

// roleOver returns what ModelOf does, over the models.chat of the index.
func (c *Config) roleOver(out core.ChatModel, index, role string) core.ChatModel {
	general, indexed := c.Models, c.Indexes[index].Models
	prefix := "indexes." + index + ".models."
	if role == core.RoleVision {
		out = Default().Models.Chat
	}
	moved := c.namesServer(prefix + "chat")
	c.layRole(&out, general.roleOf(role), "models."+role, moved && !c.namesServer("models."+role))
	c.layRole(&out, indexed.roleOf(role), prefix+role, false)
	return out
}

// namesServer reports whether the keys of a model name whom to ask.
func (c *Config) namesServer(path string) bool {
	return c.IsGiven(path+".provider") || c.IsGiven(path+".base_url")
}

// layRole lays the keys of a role over a model, those that are given. keyless: but for its API key.
func (c *Config) layRole(out, own *core.ChatModel, path string, keyless bool) {
	switch {
	case c.namesServer(path):
		*out = Default().Models.Chat
		out.Provider = providerOpenAI
		if own.BaseURL != "" {
			out.APIKeyEnv = ""
		}
	case c.IsGiven(path + ".model"):
		out.Price = core.Price{}
	}
	skip := ""
	if keyless {
		skip = path + ".api_key_env"
	}
	c.layKeys(reflect.ValueOf(out).Elem(), reflect.ValueOf(own).Elem(), path, skip)
}

// layKeys lays the keys below path of own over those of out, those that are given, but for skip.
func (c *Config) layKeys(out, own reflect.Value, path, skip string) {
	set := map[string]reflect.Value{}
	walkValues(own, path, func(key string, value reflect.Value) {
		if key != skip && (c.IsGiven(key) || !value.IsZero()) {
			set[key] = value
		}
	})
	walkValues(out, path, func(key string, value reflect.Value) {
		if given, ok := set[key]; ok {
			value.Set(given)
		}
	})
}

// listChats lists the chat models that an index asks, by the path of their keys below path.
func (c *Config) listChats(path, index string) map[string]core.ChatModel {
	chat := c.modelsOf(index).Chat
	out := map[string]core.ChatModel{path + ".chat": chat}
	for _, role := range Roles {
		out[path+"."+role] = c.roleOver(chat, index, role)
	}
	return out
}

// listRoles lists the chat models of an index's roles that are not models.chat: one spec for what asks the same models.
func (c *Config) listRoles(index string) map[string]core.ChatModel {
	var out map[string]core.ChatModel
	general := c.modelsOf(index).Chat
	chat := fitChat(general)
	for _, role := range Roles[:len(Roles)-1] {
		if role == core.RoleVision && c.readsPages(index) == "" {
			continue
		}
		if own := fitChat(c.roleOver(general, index, role)); own != chat || role == core.RoleVision {
			if out == nil {
				out = map[string]core.ChatModel{}
			}
			out[role] = own
		}
	}
	return out
}

// readsPages returns which pages of an index's documents a model transcribes; empty: none.
func (c *Config) readsPages(index string) string {
	if pages := c.Indexes[index].Documents.Vision.Pages; pages != noPages {
		return pages
	}
	return ""
}

// fitWriting takes out of an index's settings what is the default of prompts.
func (i *Index) fitWriting() {
	if i.Extraction.Language == core.LanguageAuto {
		i.Extraction.Language = ""
	}
	if i.Answer.Style == core.StyleShort {
		i.Answer.Style = ""
	}
}

// fitChat takes out of a chat model what has no effect, so that models whose calls are equal are equal.
func fitChat(chat core.ChatModel) core.ChatModel {
	if chat.Mode != modeBatch || chat.Provider != providerOpenAI {
		chat.Batch = core.BatchMode{}
	}
	if chat.Timeout == core.DefaultModelTimeout {
		chat.Timeout = 0
	}
	return chat
}

// generalRole gives the path under which a key of a role is described: that of models.chat.
func generalRole(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "models.")
	if !ok {
		return path, false
	}
	role, key, ok := strings.Cut(rest, ".")
	if !ok || !slices.Contains(Roles, role) {
		return path, false
	}
	return "models.chat." + key, true
}
