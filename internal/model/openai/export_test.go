package openai

// LearnThoughts takes what an answer taught of how a model begins its thoughts.
func (c *Client) LearnThoughts(opened bool) { c.learnThoughts(opened) }
