package workflows

// Waited reports whether a run waits by itself for what this code stands for to end, before it needs a person.
func Waited(code string) bool { return waited[code] }

// Pausing reports whether a failure with this code pauses a run; any other ends it.
func Pausing(code string) bool { return pausing[code] }
