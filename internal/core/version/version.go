// Package version says which version of the product a program is.
package version

import "runtime/debug"

// Version is set by the linker in releases and images.
var Version = ""

// String returns the version of a release; elsewhere the commit that the program was built from, where that is known.
func String() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return describeCommit(info.Settings)
	}
	return "dev"
}

// describeCommit names the commit of a build, and whether files differ from it.
func describeCommit(settings []debug.BuildSetting) string {
	commit, changed := "", ""
	for _, setting := range settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value[:min(12, len(setting.Value))]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "-changed"
		}
	}
	if commit == "" {
		return "dev"
	}
	return "dev-" + commit + changed
}
