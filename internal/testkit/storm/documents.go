package storm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Documents is a generated corpus: seeded, so that two storms index the same, and dense in names, so that every stage
// has work. Nights change it.
type Documents struct {
	Count int
	Seed  uint64
}

var (
	firstNames = strings.Fields("Ada Bela Cato Dora Edda Fenna Gero Hanno Ilka Joris Karla Levin Mira Nils Oda Piet " +
		"Quirin Runa Sven Tilda Ulla Vito Wanda Xaver Yara Zeno")
	lastNames = strings.Fields("Abend Bruck Corvin Dorn Ehlers Falk Gerlach Hofer Imhof Jansen Kolb Lorenz Merrow " +
		"Nagel Ostrow Perl Quarrie Reuter Sand Thal Unger Varga Winter York Zander")
	places = strings.Fields("Ashford Birkdale Carlow Dunmore Elgin Fermoy Galway Harwich Ilford Jarrow Kelso Leith " +
		"Moffat Nairn Oban Perth Redcar Selby Thirsk Ulver Whitby Yarm")
	deeds = []string{
		"repaired the harbour crane at", "wrote a long report about the bridge of", "taught surveying in",
		"sold the old observatory of", "planted four hundred lime trees near", "kept the weather station of",
		"measured the tides at", "restored the organ of the church in", "ran the ferry that leaves from",
		"collected the songs of the weavers of",
	}
)

// Write writes the corpus as it is in a night into a folder. From night 1 on a fifth of the documents has another
// ending, one in thirty is gone, and some are new.
func (d Documents) Write(folder string, night int) error {
	keep := map[string]bool{}
	for i := range d.Count + night*d.Count/20 {
		if night > 0 && i < d.Count && i%30 == 7 {
			continue
		}
		name := fmt.Sprintf("d%04d.txt", i)
		keep[name] = true
		text := d.text(i, 0)
		if night > 0 && i < d.Count && i%5 == 3 {
			text += d.text(i, night)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !keep[entry.Name()] {
			if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns the text of a document, a few sentences about a few people and places.
func (d Documents) text(document, night int) string {
	random := rand.New(rand.NewPCG(d.Seed+uint64(night)<<32, uint64(document)))
	person := func() string {
		return firstNames[random.IntN(len(firstNames))] + " " + lastNames[random.IntN(len(lastNames))]
	}
	var text strings.Builder
	for range 5 + random.IntN(4) {
		fmt.Fprintf(&text, "In %d %s %s %s together with %s. ", 1850+random.IntN(150), person(),
			deeds[random.IntN(len(deeds))], places[random.IntN(len(places))], person())
	}
	return text.String()
}
