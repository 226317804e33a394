package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// describeKeys gives the description of every key by its path.
func describeKeys() map[string]key {
	out := make(map[string]key, len(keys))
	for _, k := range keys {
		out[k.path] = k
	}
	return out
}

// findPlace returns the place of a value: where it was given, else where the nearest key above it was.
func (l *loader) findPlace(path string) place {
	for above := path; ; {
		if at, ok := l.cfg.places[above]; ok {
			return at
		}
		i := strings.LastIndexByte(above, '.')
		if i < 0 {
			return place{origin: FromDefault, source: path}
		}
		above = above[:i]
	}
}

func (l *loader) checkKey(ok bool, path, format string, args ...any) {
	if !ok {
		l.addMistake(l.findPlace(path), path+": "+format, args...)
	}
}

// validateConfig checks every value by the rule of its key, then what keys ask of each other.
func (l *loader) validateConfig() {
	l.checkRules()
	l.checkDeployment()
	l.queryAPI()
	l.checkQuotas()
	sends := l.cfg.Notify.Webhook != "" || len(l.cfg.Notify.Named) > 0
	l.checkKey(!sends || l.cfg.Notify.SecretEnv != "", "notify.secret_env",
		"set it to the variable that holds the secret for signing webhook requests")
	l.modelsNeed("models", "", l.cfg.Models)
	for index, settings := range l.cfg.Indexes {
		l.checkIndex("indexes."+index, index, settings)
	}
}

// checkRules checks every value by the rule of its key.
func (l *loader) checkRules() {
	byPath := describeKeys()
	walkValues(reflect.ValueOf(l.cfg).Elem(), "", func(path string, value reflect.Value) {
		if _, given := l.cfg.places[path]; !given && isOverride(path) {
			return
		}
		k, known := byPath[toGeneral(path)]
		if !known { // below an index whose name has a dot: the name is refused
			return
		}
		if k.rule.mistake != nil {
			why := k.rule.mistake(value.Interface())
			l.checkKey(why == "", path, "%s", why)
		}
	})
}

// defaultValues returns the default values by the path of their key.
func defaultValues() map[string]reflect.Value {
	out := map[string]reflect.Value{}
	config := Default()
	config.Indexes["*"] = defaultIndex()
	walkValues(reflect.ValueOf(config).Elem(), "", func(path string, value reflect.Value) {
		if !isOverride(path) {
			out[path] = value
		}
	})
	return out
}

func (l *loader) checkDeployment() {
	deployment := l.cfg.Engine.Deployment
	l.checkKey(
		!deployment.Versioned || (deployment.Name != "" && deployment.BuildID != ""), "engine.deployment.versioned",
		"requires engine.deployment.name and engine.deployment.build_id",
	)
	l.checkKey(
		(l.cfg.Engine.TLSCert == "") == (l.cfg.Engine.TLSKey == ""), "engine.tls_cert", "requires engine.tls_key as well",
	)
	l.checkKey(
		(deployment.Name == "") == (deployment.BuildID == ""), "engine.deployment", "name and build_id require each other",
	)
}

func (l *loader) checkIndex(path, name string, settings Index) {
	l.checkKey(
		core.ValidIndex(name), path,
		"a name has letters a-z, digits and hyphens, at most 63, and no hyphen first; ledger and doctor are reserved",
	)
	chunking := settings.Chunking
	l.checkKey(
		chunking.Overlap < max(1, chunking.MaxTokens), path+".chunking.overlap", "want less than max_tokens (%d), got %d",
		chunking.MaxTokens, chunking.Overlap,
	)
	l.checkKey(
		chunking.Overlap <= 0 || chunking.Strategy == "fixed", path+".chunking.overlap",
		"only strategy fixed has an overlap",
	)
	parser := settings.Documents.Parser
	l.checkKey(parser.Provider != providerDocling || parser.BaseURL != "", path+".documents.parser.base_url",
		"provider docling requires base_url")
	l.checkFreshness(path, settings)
	why := core.Spec{
		Documents: &settings.Documents, Enrich: settings.Enrich, Aliases: settings.Aliases, Parity: settings.Parity,
		Retrieval: settings.Retrieval,
	}.CheckLabels()
	l.checkKey(why == "", path+".documents.labels", "%s (docs/guides/labels.md)", why)
	l.checkPrices(path, name)
	l.checkVision(path, name)
	below := path + ".models."
	for given := range l.cfg.places {
		if strings.HasPrefix(given, below) {
			l.modelsNeed(path+".models", name, l.cfg.modelsOf(name))
			break
		}
	}
}

// checkVision refuses pages to transcribe without a server that is named for them.
func (l *loader) checkVision(path, index string) {
	vision := l.cfg.ModelOf(index, core.RoleVision)
	l.checkKey(l.cfg.readsPages(index) == "" || vision.Provider == providerOpenAI, path+".documents.vision.pages",
		"set models.vision.base_url (or provider: openai) and models.vision.model: pages go to no other model")
}

// checkPrices refuses a role with a model of its own and no price where a limit of money counts its calls.
func (l *loader) checkPrices(path, index string) {
	general := l.cfg.modelsOf(index).Chat
	for _, role := range Roles[:len(Roles)-1] {
		if role == core.RoleVision && l.cfg.readsPages(index) == "" {
			continue
		}
		chat := l.cfg.roleOver(general, index, role)
		limited := l.cfg.Indexes[index].Budget.Money > 0 && role != core.RoleAnswer ||
			l.cfg.QueryAPI.Limits.AnswerMoneyPerDay > 0 && (role == core.RoleAnswer || role == core.RoleTriples)
		given := slices.ContainsFunc([]string{"models." + role, path + ".models." + role}, func(at string) bool {
			return l.cfg.IsGiven(at+".price.prompt") || l.cfg.IsGiven(at+".price.completion")
		})
		counted := chat.Provider != providerOpenAI || chat.Price != (core.Price{}) ||
			general.Price == (core.Price{}) && role != core.RoleVision
		l.checkKey(!limited || given || counted,
			path+".models."+role+".price", "a limit of money counts its calls: set the price of this model, 0 if it is free")
	}
}

// modelsNeed checks what providers need, on models as they are resolved.
func (l *loader) modelsNeed(path, index string, models Models) {
	needsKey := func(setting, provider, url, variable string) {
		l.checkKey(provider != providerOpenAI || variable != "" || url != "", setting+".api_key_env",
			"OpenAI requires a key: name the variable that holds it; only a server set as base_url may need none")
	}
	for setting, chat := range l.cfg.listChats(path, index) {
		if setting != path+".chat" && chat == models.Chat {
			continue
		}
		l.checkKey(chat.Provider != providerOpenAI || chat.Model != "", setting+".model", "provider openai needs a model")
		l.checkKey(chat.Provider != providerRecorded || chat.File != "", setting+".file", "provider recorded requires a file")
		needsKey(setting, chat.Provider, chat.BaseURL, chat.APIKeyEnv)
		l.checkKey(setting == path+".chat" || chat.Provider != providerBuiltin || chat.Model == "", setting+".model",
			"set provider or base_url of the role, too: built-in rules have no model")
		extracts := setting == path+".chat" || setting == path+"."+core.RoleExtraction
		l.checkKey(extracts || chat.Provider != providerRecorded, setting+".provider", "a recording has only extractions")
		l.checkKey(extracts || !l.cfg.IsGiven(setting+".mode") || chat.Mode != modeBatch, setting+".mode",
			"only extraction is sent in batches")
	}
	embedding := models.Embedding
	needsKey(path+".embedding", embedding.Provider, embedding.BaseURL, embedding.APIKeyEnv)
	l.checkKey(
		!models.Rerank.IsOn() || models.Rerank.BaseURL != "", path+".rerank.base_url", "provider http requires base_url",
	)
	l.checkKey(
		models.Embedding.Provider != "openai" || models.Embedding.Model != "", path+".embedding.model",
		"provider openai needs a model",
	)
	if embedding := models.Embedding; embedding.Provider == providerBuiltin && embedding.Model == "" {
		l.checkKey(embedding.Dimension == 0 || embedding.Dimension == builtin.Dimension, path+".embedding.dimension",
			"want 0 or %d, the length of the built-in lexical vectors, got %d; another length requires a model",
			builtin.Dimension, embedding.Dimension)
	} else if embedding.Provider == providerBuiltin {
		built, ok := neural.Find(embedding.Model)
		l.checkKey(ok, path+".embedding.model", "%q is not a built-in model: use %s, or leave it empty for lexical vectors",
			embedding.Model, strings.Join(neural.Names(), ", "))
		l.checkKey(!ok || embedding.Dimension == 0 || embedding.Dimension == built.Dimension, path+".embedding.dimension",
			"want 0 or %d, the length of %s, got %d", built.Dimension, embedding.Model, embedding.Dimension)
	}
}
