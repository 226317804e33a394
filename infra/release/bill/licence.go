package bill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// marks are words that only one licence has, in lower case and with single spaces.
var marks = []struct{ id, words string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"GPL-3.0-only", "gnu general public license version 3"},
	{"LGPL-3.0-only", "gnu lesser general public license version 3"},
}

var (
	blank       = regexp.MustCompile(`[\s#*]+`)
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
)

// Detect gives the SPDX ids of the licences whose text this is, sorted.
func Detect(text string) []string {
	text = blank.ReplaceAllString(strings.ToLower(text), " ")
	var found []string
	for _, mark := range marks {
		if strings.Contains(text, mark.words) {
			found = append(found, mark.id)
		}
	}
	if strings.Contains(text, "redistribution and use in source and binary forms") {
		if strings.Contains(text, "neither the name") || strings.Contains(text, "names of its contributors") {
			found = append(found, "BSD-3-Clause")
		} else {
			found = append(found, "BSD-2-Clause")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// FromSources looks licences up in the sources that the modules were built from: the toolchain's module cache.
func FromSources() (Licences, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module cache: %w", err)
	}
	cache := strings.TrimSpace(string(out))
	return func(module, version string) []string {
		if module == "std" {
			return []string{"BSD-3-Clause"}
		}
		return inFolder(filepath.Join(cache, escaped(module)+"@"+escaped(version)))
	}, nil
}

// escaped is a path as the module cache spells it: a capital is ! and the small letter.
func escaped(path string) string {
	var out strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			out.WriteByte('!')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// inFolder detects the licences of a module's files.
func inFolder(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		if raw, err := os.ReadFile(filepath.Join(folder, entry.Name())); err == nil {
			found = append(found, Detect(string(raw))...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
