package retrievetest

import "time"

// Sample returns a small corpus about Norway: six documents, nine chunks, a class in five of them and classes in one.
func Sample() []Document {
	day := func(n int) time.Time { return time.Date(2026, time.January, n, 12, 0, 0, 0, time.UTC) }
	return []Document{
		{
			Key: "cities/bergen.txt", Title: "Bergen", Meta: map[string]string{"kind": "city", "lang": "en, no"}, Modified: day(1),
			Chunks: []Chunk{
				{"Bergen is a port on the west coast of Norway. ", []string{"Bergen", "Norway"}},
				{"The Hanseatic League ran a trading post at Bryggen. ", []string{"Hanseatic League", "Bryggen"}},
			},
		},
		{
			Key: "cities/oslo.txt", Title: "Oslo", Meta: map[string]string{"kind": "city"}, Modified: day(2),
			Chunks: []Chunk{
				{"Oslo is the capital of Norway. ", []string{"Oslo", "Norway"}},
				{"The opera house of Oslo stands at the fjord. ", []string{"Oslo", "Opera House"}},
			},
		},
		{
			Key: "cities/tromsø.txt", Title: "Tromsø", Meta: map[string]string{"kind": "city"}, Modified: day(3),
			Chunks: []Chunk{
				{"Tromsø lies north of the Arctic Circle in Norway. ", []string{"Tromsø", "Arctic Circle", "Norway"}},
			},
		},
		{
			Key: "people/amundsen.txt", Title: "Roald Amundsen", Meta: map[string]string{"kind": "person"}, Modified: day(4),
			Chunks: []Chunk{
				{"Roald Amundsen reached the South Pole first. ", []string{"Roald Amundsen", "South Pole"}},
				{"Roald Amundsen set out from Oslo on the ship Fram. ", []string{"Roald Amundsen", "Oslo", "Fram"}},
			},
		},
		{
			Key: "people/grieg.txt", Title: "Edvard Grieg", Meta: map[string]string{"kind": "person"}, Modified: day(5),
			Chunks: []Chunk{
				{"Edvard Grieg composed in Bergen, Norway. ", []string{"Edvard Grieg", "Bergen", "Norway"}},
			},
		},
		{
			Key: "ships/fram.txt", Title: "Fram", Modified: day(6), Stale: true,
			Chunks: []Chunk{
				{"Fram sailed farther north and south than any ship of Norway. ", []string{"Fram", "Norway"}},
			},
		},
	}
}
