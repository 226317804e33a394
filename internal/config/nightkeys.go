package config

// nightKeys are the keys of what every build of an index is held to, and when it runs.
var nightKeys = []key{
	{
		path:    "indexes.*.keep",
		meaning: "number of published generations to keep",
		unit:    "generations",
		example: "7",
		rule:    requireRange(1, 10000),
	},
	{
		path:    "indexes.*.grace",
		meaning: "how long an unreferenced file is kept before it is deleted",
		example: "72h",
		rule:    longerThanZero(),
	},
	{
		path:    "indexes.*.budget.calls",
		meaning: "maximum number of paid calls of one run; 0: no limit",
		unit:    "calls",
		example: "10000",
		rule:    requireRange(0, 1e12),
	},
	{
		path:    "indexes.*.budget.tokens",
		meaning: "maximum number of paid tokens of one run; 0: no limit",
		unit:    "tokens",
		example: "50000000",
		rule:    requireRange(0, 1e15),
	},
	{
		path:    "indexes.*.budget.money",
		meaning: "maximum cost of one run, by the prices of models; 0: no limit",
		unit:    "money",
		example: "25",
		rule:    requireRange(0, 1e12),
	},
	{
		path: "indexes.*.failures.share",
		meaning: "a run with floor or more failed chunks, more than count and than this share, is not " +
			"published",
		unit:    "share of chunks",
		example: "0.05",
		rule:    requireRange(0, 1),
	},
	{
		path:    "indexes.*.failures.count",
		meaning: "number of failed chunks that is accepted at any share",
		unit:    "chunks",
		example: "20",
		rule:    requireRange(0, 1e9),
	},
	{
		path: "indexes.*.failures.documents_share",
		meaning: "a run with floor or more unreadable documents, more than this share, is not published; of a first build " +
			"half may be",
		unit:    "share of documents",
		example: "0.05",
		rule:    requireRange(0, 1),
	},
	{
		path:    "indexes.*.failures.floor",
		meaning: "fewer failures than this never hold a run",
		unit:    "failures",
		example: "1",
		rule:    requireRange(0, 1e9),
	},
	{
		path:    "indexes.*.gate.max_removed",
		meaning: "a run that removes a larger share of the documents is held",
		unit:    "share of documents",
		example: "0.5",
		rule:    requireRange(0, 1),
	},
	{
		path: "indexes.*.aliases",
		meaning: "file, or object of a bucket, of names that are one (docs/explain/methods.md); " +
			"a change makes the documents again that have such a name, and extracts nothing",
		example: "s3://bucket/aliases.txt",
		rule:    allowEmpty(fileOrObject()),
	},
	{
		path: "indexes.*.gate.probes",
		meaning: `file, or object of a bucket, of probe questions: lines {"question", "documents": [keys]}; both ` +
			"generations are asked them before a run is published",
		example: "s3://bucket/probes.jsonl",
		rule:    allowEmpty(fileOrObject()),
	},
	{
		path:    "indexes.*.gate.max_recall_drop",
		meaning: "maximum loss of recall on the probe questions; a larger loss holds the run",
		unit:    "share",
		example: "0.1",
		rule:    requireRange(0, 1),
	},
	{
		path:    "indexes.*.gate.max_size_change",
		meaning: "a run whose number of chunks differs from its parent by a larger share is held; 0: no limit",
		unit:    "share of chunks",
		example: "0.3",
		rule:    requireRange(0, 1e6),
	},
	{
		path:    "indexes.*.gate.max_cost",
		meaning: "a run that costs more is held, except a first build; 0: no limit",
		unit:    "money",
		example: "25",
		rule:    requireRange(0, 1e12),
	},
	{
		path:    "indexes.*.schedule.cron",
		meaning: "times of scheduled builds",
		example: `"0 3 * * *"`,
		rule:    allowEmpty(newTextRule("five fields, or @daily and the like", cronMistake)),
	},
	{
		path:    "indexes.*.schedule.timezone",
		meaning: "time zone of cron",
		example: "Europe/Berlin",
		rule:    requireTimezone(),
	},
	{
		path:    "indexes.*.schedule.overlap",
		meaning: "what happens if the previous run is still running",
		example: "buffer_one",
		rule:    oneOf("skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"),
	},
	{
		path:    "indexes.*.schedule.catchup",
		meaning: "how late a missed run may start",
		example: "1h",
		rule:    longerThanZero(),
	},
	{
		path:    "indexes.*.schedule.jitter",
		meaning: "random delay of the start of a run, at most",
		example: "1m",
		rule:    longerThanZero(),
	},
	{
		path:    "indexes.*.schedule.pause_on_failure",
		meaning: "pause the schedule after a failed run",
	},
}
