package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// variablePrefix of variables that are ours.
const variablePrefix = "UNWEAVER_"

// programs are variables that programs read themselves: no keys of the configuration.
var programs = []string{
	"UNWEAVER_DATA_DIR",
	"UNWEAVER_CONFIG",
	"UNWEAVER_TEMPORAL",
	"UNWEAVER_CACHE_DIR",
	"UNWEAVER_API_KEY",
}

// injected matches what Kubernetes puts into every container for every service of a namespace whose name begins with
// "unweaver": UNWEAVER_QUERY_API_SERVICE_HOST, …_SERVICE_PORT, …_SERVICE_PORT_HTTP, …_PORT, …_PORT_8080_TCP and
// …_PORT_8080_TCP_ADDR, _PORT, _PROTO. Such variables are not ours to judge.
var injected = regexp.MustCompile(
	`^UNWEAVER_([A-Z0-9_]+_)?` +
		`(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)$`,
)

// applyEnvironment applies UNWEAVER_<PATH>. A variable that names no key is a mistake, unless a program reads it or
// Kubernetes has put it there.
func (l *loader) applyEnvironment(variables []string) {
	paths := map[string]string{}
	walkValues(reflect.ValueOf(l.cfg).Elem(), "", func(path string, _ reflect.Value) {
		paths[strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))] = path
	})
	for _, variable := range slices.Sorted(slices.Values(variables)) {
		name, value, _ := strings.Cut(variable, "=")
		capitals, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || slices.Contains(programs, name) || strings.HasPrefix(capitals, "TEST_") {
			continue
		}
		at := place{origin: FromVariable, source: name}
		path, known := paths[capitals]
		switch {
		case known:
			l.overrideValue(strings.Split(path, "."), value, at)
		case injected.MatchString(name):
		case strings.HasPrefix(capitals, "INDEXES_"):
			l.addMistake(at, "no index in the file has such a key; for an index outside the file use --set indexes.NAME.…")
		default:
			l.addMistake(at, "no such key")
		}
	}
}
