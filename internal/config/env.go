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

// applyEnvironment applies UNWEAVER_<PATH>. A path is found by walking the keys, since keys hold underscores too. A
// variable that names no key is a mistake, unless a program reads it or Kubernetes has put it there.
func (l *loader) applyEnvironment(variables []string) {
	variables = slices.Sorted(slices.Values(variables))
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		capitals, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || slices.Contains(programs, name) || strings.HasPrefix(capitals, "TEST_") {
			continue
		}
		at := place{origin: FromVariable, source: name}
		path := findPath(reflect.TypeFor[Config](), capitals, l.cfg.Indexes)
		switch {
		case path != nil:
			l.overrideValue(path, value, at)
		case injected.MatchString(name):
		case strings.HasPrefix(capitals, "INDEXES_"):
			l.addMistake(at, "no index in the file has such a key; for an index outside the file use --set indexes.NAME.…")
		default:
			l.addMistake(at, "no such key")
		}
	}
}

// findPath gives the path of the value whose capitals joined by underscores are given, or nil.
func findPath(parent reflect.Type, capitals string, indexes map[string]Index) []string {
	try := func(key string, child reflect.Type) []string {
		own := strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		nested := child.Kind() == reflect.Struct || child.Kind() == reflect.Map
		if !nested {
			if capitals == own {
				return []string{key}
			}
			return nil
		}
		rest, ok := strings.CutPrefix(capitals, own+"_")
		if !ok {
			return nil
		}
		if path := findPath(child, rest, indexes); path != nil {
			return append([]string{key}, path...)
		}
		return nil
	}
	if parent.Kind() == reflect.Map {
		for index := range indexes {
			if path := try(index, parent.Elem()); path != nil {
				return path
			}
		}
		return nil
	}
	for i := range parent.NumField() {
		field := parent.Field(i)
		if key := keyOf(field); key != "" {
			if path := try(key, field.Type); path != nil {
				return path
			}
		}
	}
	return nil
}
