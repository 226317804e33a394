package text_test

import (
	"fmt"
	"github.com/unweaver/unweaver/internal/text"
	"slices"
	"testing"
)

func TestTry(t *testing.T) {
	for _, s := range []string{"The C team, C++ team; C# team. (.NET) net F# Objective-C node.js AT&T", "C/C++17, C/C#, C++, C#.", "U.S. consulate US i18n S&P 500 TCP/IP A* 3.5 v1.2.3 I/O", "getUserName MAX_RETRY_COUNT HTTPServer user_name iPhone McDonald CEOs mRNA NASA's Node.js ASP.NET", "naïve naive Zürich zurich ﬁle He\u0301le\u0300ne Hélène sec\u00adre\u00adtary zero\u200bwidth", "l’été O'Brien O’Brien don't Straße ＡＢＣ １２３ Łódź İstanbul ısı ΟΔΟΣ οδός ёлка", "مُحَمَّد محمد كتـــاب أحمد שָׁלוֹם שלום ٣٤", "1,200,000 crowns 3.5 % e-mail X-ray F-16 vitamin-C A-Z T-cells state-of-a-kind *A* **b** `x++` #tag a_b __init__", "Visit https://www.example.com/a_b?x=1&yy=2 or mail foo.bar@baz.org end.Next .gitignore ...and .5", "C++语言和.NET框架 Notepad++ Google+ résumés A+ H+", "???", "if(a&&b) x->y std::vector map<int> c=c+1 f(x)*g"} {
		fmt.Printf("%q\n  T %q\n  S %q\n", s, text.Terms(s), text.Surface(s))
		fmt.Printf("  und %q\n  fr %q\n", text.In("und").Terms(s), text.In("fr").Terms(s))
	}
	_ = slices.Sort[[]string]
}
