package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Freshness says which hints of changed objects an index follows between nights. A process takes it from its own
// configuration alone.
type Freshness struct {
	Events     string        `yaml:"events"`
	Debounce   core.Duration `yaml:"debounce"`
	SecretFile string        `yaml:"secret_file"`
}

// EventsWebhook is the value of freshness.events for signed requests to query-api.
const EventsWebhook = "webhook"

// eventSource matches EventsWebhook, and the address of a queue.
var eventSource = regexp.MustCompile(`^(webhook|sqs://[^/@ ]+/[^/]+/[^/]+)$`)

var freshnessKeys = []key{
	{
		path: "indexes.*.freshness.events",
		meaning: "where hints of changed objects come from, which a small build follows between nights: the queue of S3 " +
			"event notifications, or webhook, signed requests to query-api (docs/guides/freshness.md); empty: none",
		example: "sqs://sqs.eu-north-1.amazonaws.com/123456789012/corpus",
		rule:    allowEmpty(requireForm(EventsWebhook+" or sqs://HOST/ACCOUNT/NAME", eventSource)),
	},
	{
		path:    "indexes.*.freshness.debounce",
		meaning: "a build follows hints once none arrived for so long, or after three times as long",
		example: "5s",
		rule:    requireDuration(time.Second, 10*time.Minute),
	},
	{
		path: "indexes.*.freshness.secret_file",
		meaning: "file of query-api with the secret that signs hints, at least 16 bytes; events: webhook requires it. It " +
			"is read at the start",
		example: "/run/secrets/docs-hints",
	},
}

// checkFreshness checks what the keys ask of each other.
func (l *loader) checkFreshness(path string, settings Index) {
	events := settings.Freshness.Events
	l.checkKey(events != EventsWebhook || settings.Freshness.SecretFile != "", path+".freshness.secret_file",
		"events: webhook requires a file with the secret that signs hints")
	l.checkKey(!strings.HasPrefix(events, "sqs:") || strings.HasPrefix(settings.Corpus, "s3://"),
		path+".freshness.events", "a queue requires indexes.<name>.corpus to be s3://bucket/prefix")
}

// ReadHintSecrets reads the secrets that sign hints, by index. No two are equal: a signature does not name the index.
func (c *Config) ReadHintSecrets() (map[string]string, error) {
	out, owners := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Indexes)) {
		if c.Indexes[name].Freshness.Events != EventsWebhook {
			continue
		}
		file := c.Indexes[name].Freshness.SecretFile
		raw, err := os.ReadFile(file)
		secret := strings.TrimSpace(string(raw))
		bad := fault.BadConfig.At("read indexes."+name+".freshness.secret_file", file)
		switch {
		case err != nil:
			return nil, bad.Because(err).Advise("write the secret into this file, readable by this process")
		case len(secret) < 16:
			return nil, bad.Because("it has less than 16 bytes").Advise("make one: openssl rand -hex 32")
		case owners[secret] != "":
			return nil, bad.Because("it has the secret of index " + owners[secret] +
				": hints of one could be sent to the other").
				Advise("make one for each index: openssl rand -hex 32")
		}
		redact.Register(secret)
		out[name], owners[secret] = secret, name
	}
	return out, nil
}
