package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// branchIndex has an index that the file does not name begin with the configuration of its base. It gets no
// schedule: two indexes that share segments are built one after the other.
func (l *loader) branchIndex(overlay core.Overlay) {
	if overlay.Base == "" {
		return
	}
	if _, own := l.cfg.Indexes[overlay.Index]; own {
		return
	}
	settings, ok := l.cfg.Indexes[overlay.Base]
	if !ok {
		settings = defaultIndex()
	}
	settings.Schedule.Cron = ""
	l.cfg.Indexes[overlay.Index] = settings
	from, to := "indexes."+overlay.Base, "indexes."+overlay.Index
	for path, at := range maps.Clone(l.cfg.places) {
		if rest, ok := strings.CutPrefix(path, from+"."); ok {
			l.cfg.places[to+"."+rest] = at
		}
	}
}

// applyOverlay sets what the store says over the file and the variables.
func (l *loader) applyOverlay(overlay core.Overlay) {
	for _, key := range slices.Sorted(maps.Keys(overlay.Set)) {
		path := "indexes." + overlay.Index + "." + key
		l.overrideValue(strings.Split(path, "."), overlay.Set[key], place{origin: FromBranch, source: path})
	}
}

// CheckOverlay checks settings of a branch by themselves: that there are such keys, and that they take these values.
// What depends on other settings is checked where the configuration is.
func CheckOverlay(set map[string]string) error { return loadOverlay("branch", set).joinMistakes() }

// FindMistake returns what is wrong with the value of one setting of an index, by itself; empty: nothing.
func FindMistake(key, value string) string {
	for _, first := range loadOverlay("index", map[string]string{key: value}).mistakes {
		return strings.TrimPrefix(first.text, "indexes.index."+key+": ")
	}
	return ""
}

// loadOverlay finds the mistakes of settings by themselves.
func loadOverlay(index string, set map[string]string) *loader {
	l := &loader{cfg: Default()}
	l.cfg.places = map[string]place{}
	l.applyOverlay(core.Overlay{Index: index, Set: set})
	l.checkRules()
	return l
}

// FindMissing returns the settings of an overlay that the configuration does not say without it: a file that carries
// one releases it.
func (c *Config) FindMissing(overlay core.Overlay) map[string]string {
	out := map[string]string{}
	plain := map[string]string{}
	for _, setting := range c.Settings() {
		if setting.Origin == FromFile || setting.Origin == FromVariable {
			plain[setting.Key] = setting.Text
		}
	}
	for key, value := range overlay.Set {
		if said, ok := plain["indexes."+overlay.Index+"."+key]; !ok || said != value {
			out[key] = value
		}
	}
	return out
}
