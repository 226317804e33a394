package extract

import "github.com/unweaver/unweaver/internal/core"

// VersionOf and PromptVersion give the version of a prompt, alone and with the prompt.
var VersionOf = versionOf

func PromptVersion(spec core.Spec, text string) string { return promptOf(spec, text).version }

// PromptDigest covers all that a model is sent beside a text.
func PromptDigest(spec core.Spec, text string) core.Digest {
	p := promptOf(spec, text)
	return core.Sum(p.version, p.system, p.before, p.reminder, string(p.schema))
}

// Plain gives the plain names of an answer to a text, each with its description.
func Plain(names, descriptions []string, content string) (out [][2]string) {
	entries := make([]entity, len(names))
	for i, name := range names {
		entries[i] = entity{Name: name, Description: descriptions[i]}
	}
	for _, one := range cleanEntities(entries, content) {
		out = append(out, [2]string{one.Name, one.Description})
	}
	return out
}
