package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Telemetry says where traces go.
type Telemetry struct {
	OTLPEndpoint string `yaml:"otlp_endpoint"`
}

// Notify says which webhook gets which ends and pauses of runs. A worker takes it from its own configuration
// alone: who may build an index does not choose where the worker sends requests.
type Notify struct {
	Webhook   string   `yaml:"webhook"`
	SecretEnv string   `yaml:"secret_env"`
	On        []string `yaml:"on"`
	Page      string   `yaml:"page"`
	Named     []string `yaml:"named"`
}

// Events that a webhook can get.
const (
	OnFailed    = "failed"    // a run failed
	OnHeld      = "held"      // a gate kept a run from being published
	OnPaused    = "paused"    // a run needs a person to go on
	OnErrors    = "errors"    // a run was published, and something failed or stands failed
	OnCompleted = "completed" // a run was published, or had nothing to do
	OnWatched   = "watched"   // passages of standing questions changed
)

var events = []string{OnFailed, OnHeld, OnPaused, OnErrors, OnCompleted, OnWatched}

// NotifyOf returns what counts for an index: its own webhook, variable and events, and the general ones for what it
// does not say.
func (c *Config) NotifyOf(index string) Notify {
	out, own := c.Notify, c.Indexes[index].Notify
	out.Webhook, out.SecretEnv = cmp.Or(own.Webhook, out.Webhook), cmp.Or(own.SecretEnv, out.SecretEnv)
	out.Page = cmp.Or(own.Page, out.Page)
	if len(own.On) > 0 {
		out.On = own.On
	}
	if len(own.Named) > 0 {
		out.Named = own.Named
	}
	return out
}

// NamedWebhooks returns the webhooks that standing questions may name.
func (n Notify) NamedWebhooks() map[string]string {
	out := map[string]string{}
	for _, one := range n.Named {
		name, address, _ := strings.Cut(one, "=")
		out[name] = address
	}
	return out
}

// requireNamed takes webhooks with names.
func requireNamed() rule {
	return listOf("NAME=URL", newTextRule("", func(one string) string {
		name, address, _ := strings.Cut(one, "=")
		if !core.ValidSlug(name) {
			return fmt.Sprintf("%.70q is no name of a webhook; write NAME=URL, such as legal=https://example.org/hook", name)
		}
		return requireURL().mistake(address)
	}))
}

// IsGiven reports whether a value was given: in the file, by a variable or by --set.
func (c *Config) IsGiven(path string) bool {
	_, given := c.places[path]
	return given
}

// IsSet reports whether --set gave a value.
func (c *Config) IsSet(path string) bool { return c.places[path].origin == FromSet }

// Secret returns the value of the variable that signs requests to the webhook; empty where it is not set.
func (n Notify) Secret() string { return os.Getenv(n.SecretEnv) }

// notifyKeys returns the keys that describe a webhook, general and of an index.
func notifyKeys(prefix, standard string) []key {
	return []key{
		{
			path: prefix + "webhook",
			meaning: "URL that a worker posts to when a run ends badly or needs a person (docs/reference/formats.md, " +
				"Webhooks), best https; workers read it from their own configuration" + standard,
			example: "https://ops.example.org/unweaver",
			rule:    allowEmpty(requireURL()),
		},
		{
			path:    prefix + "secret_env",
			meaning: "variable of the worker that holds the secret which signs these requests; a webhook needs it",
			example: "OPS_WEBHOOK_SECRET",
			rule:    allowEmpty(requireVariable()),
		},
		{
			path: prefix + "on",
			meaning: "what is sent to it: runs that failed, that a gate held, that are paused, that completed with " +
				"errors, that completed; watched: standing questions whose passages changed, with texts (docs/guides/watch.md)",
			example: "[failed, held]",
			rule:    eachOf(events...),
		},
		{
			path: prefix + "page",
			meaning: "address under which people reach query-api; where it is given, what is posted has a link to the run " +
				"on its page" + standard,
			example: "https://search.example.org",
			rule:    allowEmpty(requireURL()),
		},
		{
			path: prefix + "named",
			meaning: "further webhooks by name: unweaver watch add --notify NAME has the changes of a standing question sent " +
				"to one, signed with the same secret",
			example: `["legal=https://legal.example.org/hook"]`,
			rule:    requireNamed(),
		},
	}
}

var telemetryKeys = append([]key{
	{
		path: "worker.address",
		meaning: "where a worker answers /livez, /readyz and /metrics; it asks for no key, so beyond loopback a network " +
			"policy must. empty: nowhere. A worker that finds the default taken goes without",
		example: "0.0.0.0:8081",
		rule:    allowEmpty(requireAddress(true, 1)),
	},
	{
		path: "telemetry.otlp_endpoint",
		meaning: "where worker, query-api and command line send traces, as OTLP over HTTP; empty: what the standard " +
			"variables OTEL_EXPORTER_OTLP_… say, else nowhere",
		example: "http://otel-collector:4318",
		rule:    allowEmpty(requireURL()),
	},
}, notifyKeys("notify.", "")...)
