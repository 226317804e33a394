package monitoring_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var metric = regexp.MustCompile(`\bunweaver_[a-z_]+`)

// expressions gives what the dashboard and the rules ask Prometheus, by where it stands.
func expressions(t *testing.T) map[string][]string {
	raw := musttest.Get(os.ReadFile("dashboard.json"))(t)
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &dashboard))
	out, ids := map[string][]string{}, map[int]bool{}
	for _, panel := range dashboard.Panels {
		assert.True(t, !ids[panel.ID] && (panel.Type == "row" || len(panel.Targets) != 0),
			"panel %d %q: its id is taken, or it asks nothing", panel.ID, panel.Title)
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			out["panel "+panel.Title] = append(out["panel "+panel.Title], target.Expr)
		}
	}
	raw = musttest.Get(os.ReadFile("rules.yml"))(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &rules))
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			out["alert "+rule.Alert] = append(out["alert "+rule.Alert], rule.Expr)
			assert.True(t, rule.Labels["severity"] != "" && rule.Annotations["summary"] != "" &&
				rule.Annotations["action"] != "", "%s lacks a severity, a summary or what to do", rule.Alert)
		}
	}
	require.True(t, len(out) >= 30, "only %d expressions", len(out))
	return out
}

// served returns the metrics of docs/reference/metrics.md, which internal/telemetry makes from its table, as queries
// have them: histograms with their three suffixes.
func served(t *testing.T) map[string]bool {
	raw := musttest.Get(os.ReadFile("../../docs/reference/metrics.md"))(t)
	out := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+)").FindAllStringSubmatch(string(raw), -1) {
		if row[2] != "histogram" {
			out[row[1]] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			out[row[1]+suffix] = true
		}
	}
	return out
}

// Promises: 109.
func TestDashboardAndRulesAskForMetricsThatAreServed(t *testing.T) {
	served, asked := served(t), map[string]bool{}
	for place, all := range expressions(t) {
		for _, expression := range all {
			names := metric.FindAllString(expression, -1)
			assert.True(t, len(names) != 0, "%s asks for none of our metrics: %s", place, expression)
			for _, name := range names {
				asked[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")] = true
				assert.True(t, served[name], "%s asks for %s, which nothing serves", place, name)
			}
		}
	}
	assert.True(t, len(asked) >= 25, "only %d metrics are shown", len(asked))
}

// promtool comes with Prometheus (Debian and Ubuntu: apt-get install prometheus).
// Promises: 109.
func TestRulesFireWhenTheyShould(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: the alert rules were not tried, as there is no promtool here (apt-get install prometheus)")
	}
	panels := filepath.Join(t.TempDir(), "panels.yml")
	writePanels(t, panels)
	for _, args := range [][]string{
		{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}, {"check", "rules", panels},
	} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		assert.True(t, err == nil, "promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// writePanels writes what the dashboard asks as rules, so that promtool reads it.
func writePanels(t *testing.T, path string) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1d", "$index", ".*")
	var rules []map[string]string
	for place, all := range expressions(t) {
		for _, expression := range all {
			rules = append(rules, map[string]string{
				"record": "panel:n" + strconv.Itoa(len(rules)), "expr": variables.Replace(expression) + " # " + place,
			})
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	require.NoError(t, err)
}
