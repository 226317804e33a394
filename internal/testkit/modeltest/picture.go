package modeltest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	_ "image/jpeg" // what pictures are
	"strings"
)

// content is what a message says: a text, or a list of parts.
type content struct {
	text     string
	pictures []string // their URLs
}

// pictureBytes is as how many bytes of text a picture is charged.
const pictureBytes = 4000

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	err := json.Unmarshal(raw, &parts)
	for _, part := range parts {
		switch part.Type {
		case "text":
			c.text += part.Text
		case "image_url":
			c.pictures = append(c.pictures, part.ImageURL.URL)
		}
	}
	return err
}

// Columns and Rows are the cells of a page that this server can read: each is one bit, black for 1, and eight are a
// character.
const (
	Columns = 16
	Rows    = 64
)

// readPicture reads a page of cells from a data URL of a JPEG; a blank sheet says EMPTY.
func readPicture(url string) string {
	encoded, ok := strings.CutPrefix(url, "data:image/jpeg;base64,")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return "the URL is no JPEG"
	}
	sheet, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return err.Error()
	}
	said := make([]byte, Columns*Rows/8)
	size := sheet.Bounds().Size()
	for cell := range Columns * Rows {
		x, y := (2*(cell%Columns)+1)*size.X/(2*Columns), (2*(cell/Columns)+1)*size.Y/(2*Rows)
		if color.GrayModel.Convert(sheet.At(x, y)).(color.Gray).Y < 128 {
			said[cell/8] |= 1 << (7 - cell%8)
		}
	}
	if text := string(bytes.Trim(said, "\x00")); text != "" {
		return text
	}
	return "EMPTY"
}
