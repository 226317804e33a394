package documenttest

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// MailWith returns a message with files attached, all of them in base64 and of no type that its header says.
func MailWith(subject string, files ...Part) string {
	var out strings.Builder
	out.WriteString("Subject: " + subject + "\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n" +
		"--outer\r\nContent-Type: text/plain\r\n\r\nSee what is attached.\r\n")
	for _, file := range files {
		fmt.Fprintf(&out, "--outer\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; "+
			"filename=%q\r\nContent-Transfer-Encoding: base64\r\n\r\n%s\r\n", file.Name,
			base64.StdEncoding.EncodeToString([]byte(file.Content)))
	}
	return out.String() + "--outer--\r\n"
}

// PDFWith returns a PDF of one page that holds files.
func PDFWith(text string, files ...Part) string {
	objects := onePage("", "", "", stream("", "BT /F1 12 Tf ("+text+") Tj ET"))
	names := ""
	for i, file := range files {
		number := len(objects) + 1
		names += fmt.Sprintf("(%03d) %d 0 R ", i, number)
		objects = append(objects, fmt.Sprintf("<< /Type /Filespec /F (%s) /UF (%s) /EF << /F %d 0 R >> >>",
			file.Name, file.Name, number+1), stream("/Type /EmbeddedFile", file.Content))
	}
	objects[0] = "<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [" + names + "] >> >> >>"
	return pdfOf("", objects...)
}
