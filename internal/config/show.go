package config

import "reflect"

// Setting is one value and where it came from.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`       // default | file | variable | set
	At     string `json:"at,omitempty"` // file:line:column, variable NAME, --set path
	Text   string `json:"-"`            // the value as the file would have it
}

// Settings lists every value in the order of the types, indexes by name. An index's own models are listed where they
// were given; what they do not give is the general value. Secrets are only ever names of variables; a password in the
// URL of a store is left out.
func (c *Config) Settings() []Setting {
	var out []Setting
	walkValues(reflect.ValueOf(c).Elem(), "", func(path string, value reflect.Value) {
		at, given := c.places[path]
		if !given && isOverride(path) {
			return
		}
		setting := Setting{Key: path, Value: value.Interface(), Origin: FromDefault, Text: toLiteral(value)}
		if given {
			setting.Origin, setting.At = at.origin, at.String()
		}
		if text, ok := setting.Value.(string); ok && text != "" {
			setting.Value, setting.Text = hidePassword(text), hidePassword(text)
		}
		out = append(out, setting)
	})
	return out
}
