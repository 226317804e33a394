package extract

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
