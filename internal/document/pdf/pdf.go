// Package pdf reads PDF with PDFium: text with its places, headings, tables, values of forms, attached files, pages as
// pictures.
package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// pdfReader reads one PDF through PDFium, which gives characters with their places: lines, columns, headings and pages
// are made of them here (layout.go, text.go).
type pdfReader struct {
	pdfium.Pdfium
	file   references.FPDF_DOCUMENT
	object string
	limits document.Limits
	end    time.Time  // of the time that reading may take
	bytes  int64      // of the text so far
	number int        // of the page that is read, from 1
	before int64      // how often memory had been refused when reading began
	count  int        // of the pages
	inside *pdfInside // once a page needed it

	pinned bool // files are pinned to pages
}

// Read reads the text of a PDF, unless that is not asked for, and the files in it.
func Read(raw []byte, files *document.Attachments) (d document.Doc, err error) {
	object, limits := files.Object, files.Limits
	instance, err := newInstance(limits)
	if err != nil {
		return document.Doc{}, fault.Internal.At("read", object).Because(err)
	}
	r := &pdfReader{Pdfium: instance, object: object, limits: limits, end: time.Now().Add(limits.Time),
		before: refused.Load()}
	defer func() {
		if cause := recover(); cause != nil { // the file is read by calls back from PDFium, through which errors panic
			d, err = document.Doc{}, r.wrapDamage(fmt.Errorf("%v", cause))
		}
		_ = instance.Close() // it may be broken; its memory goes all the same
	}()
	opened, err := r.openFile(raw)
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return document.Doc{}, fault.Encrypted.At("read", object).
			Because("the PDF is protected by a password").
			Advise("save it without a password")
	case err != nil && !isTrap(err) && !bytes.Contains(raw[:min(len(raw), headerWithin)], []byte("%PDF-")):
		return document.Doc{}, fault.Unreadable.At("read", object).Because("it is not a PDF").
			Advise("save it as PDF, or rename it with the extension of its real type")
	case err != nil && !isTrap(err):
		return document.Doc{}, r.wrapDamage(errors.New("its pages cannot be found"))
	case err != nil:
		return document.Doc{}, r.wrapDamage(err)
	}
	r.file = opened.Document
	if len(limits.Pictures) > 0 && !limits.SkipsText() {
		return r.renderPictures()
	}
	if !limits.SkipsText() {
		read, err := r.readPages()
		if err != nil {
			return document.Doc{}, r.wrapDamage(err)
		}
		if d, err = r.makeDocument(read); err != nil {
			return document.Doc{}, err
		}
	}
	if r.pinned { // pages that were read have no annotations any more
		if opened, err = r.openFile(raw); err != nil {
			return document.Doc{}, r.wrapDamage(err)
		}
		r.file = opened.Document
	}
	r.readAttachments(files)
	if limits.SkipsText() {
		return d, nil
	}
	if names := strings.Join(files.Names, ", "); names != "" {
		if d.Meta == nil {
			d.Meta = map[string]string{}
		}
		d.Meta["attachments"] = names
		d.Text = io.MultiReader(d.Text, strings.NewReader("\nAttachments: "+names+"\n"))
	}
	d.Missing = document.JoinMissing(d.Missing, strings.Join(files.ListMissing(), "; "))
	return d, nil
}

// openFile opens a document.
func (r *pdfReader) openFile(raw []byte) (*responses.OpenDocument, error) {
	return r.OpenDocument(&requests.OpenDocument{FileReader: bytes.NewReader(raw), FileReaderSize: int64(len(raw))})
}

// headerWithin is in how many bytes at the beginning a PDF says that it is one.
const headerWithin = 1024

// adviseDamaged is what to do about a PDF that cannot be read.
const adviseDamaged = "the PDF is damaged: save it again"

// wrapDamage returns the error of a PDF that cannot be read further.
func (r *pdfReader) wrapDamage(cause error) error {
	if fault.As(cause) != nil {
		return cause
	}
	if refused.Load() > r.before {
		return document.OverMax(r.object, "memory", r.limits.Memory, "PDFium, which has half of that, takes more")
	}
	text, _, _ := strings.Cut(cause.Error(), "\n") // what follows is a trace of its calls
	doing := "read"
	if r.number > 0 {
		doing = fmt.Sprintf("read page %d of", r.number)
	}
	return fault.Unreadable.At(doing, r.object).Because(text).Advise(adviseDamaged)
}

// inTime returns the error of a PDF that takes too long; nil while there is time.
func (r *pdfReader) inTime() error {
	if time.Now().After(r.end) {
		return document.OverMax(r.object, "seconds", r.limits.Time.Seconds(), "reading it took longer")
	}
	return nil
}

// readPages reads the lines of all pages.
func (r *pdfReader) readPages() ([]*pdfPage, error) {
	counted, err := r.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: r.file})
	if err != nil {
		return nil, err
	}
	if counted.PageCount > r.limits.Pages {
		return nil, document.OverMax(r.object, "pages", r.limits.Pages, "it has more pages")
	}
	var read []*pdfPage
	r.count = counted.PageCount
	for index := range r.count {
		r.number = index + 1
		page, err := r.loadPage(index)
		if err != nil {
			return nil, err
		}
		for _, line := range page.lines {
			r.bytes += int64(len(line.text))
		}
		if r.bytes > r.limits.Text {
			return nil, r.limits.OverText(r.object)
		}
		read = append(read, page)
	}
	return read, nil
}

// makeDocument makes a document of pages.
func (r *pdfReader) makeDocument(read []*pdfPage) (document.Doc, error) {
	text, places := textOf(read)
	if int64(len(text)) > r.limits.Text {
		return document.Doc{}, r.limits.OverText(r.object)
	}
	missing := missingPages(read, r.limits)
	var scans []int
	for i, page := range read {
		if page.isScan(r.limits) {
			scans = append(scans, i+1)
		}
	}
	form, err := r.FPDF_GetFormType(&requests.FPDF_GetFormType{Document: r.file})
	if err == nil && form.FormType == enums.FPDF_FORMTYPE_XFA_FULL {
		missing = document.JoinMissing(missing, "its pages are a form of the type XFA, which is not read")
	}
	if strings.TrimSpace(text) == "" && len(scans) == 0 {
		is := func(what func(*pdfPage) bool) bool { return slices.ContainsFunc(read, what) }
		switch {
		case is(func(page *pdfPage) bool { return page.lost }):
			return document.Doc{}, fault.EmptyDocument.At("read", r.object).Because(mute).Advise("run OCR on it first")
		case is(func(page *pdfPage) bool { return page.broken }):
			return document.Doc{}, fault.Unreadable.At("read", r.object).Because(missing).Advise(adviseDamaged)
		}
		return document.Doc{}, fault.EmptyDocument.At("read", r.object).
			Because("the PDF contains no text; its pages may be scans").
			Advise("set documents.vision.pages to have a model read them, or run text recognition on it first")
	}
	doc := document.Doc{Text: strings.NewReader(text), Missing: missing, Places: places, Scans: scans}
	if title, err := r.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: r.file, Tag: "Title"}); err == nil {
		doc.Title = document.OwnTitle(document.CutTitle(strings.ToValidUTF8(title.Value, ""), r.limits.Title))
	}
	for tag, name := range map[string]string{
		"Author": "author", "CreationDate": "created", "Subject": "subject", "Keywords": "keywords",
	} {
		if value, err := r.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: r.file, Tag: tag}); err == nil {
			text := value.Value
			if tag == "CreationDate" {
				text = readDate(text)
			}
			doc.Meta = document.AddProperty(doc.Meta, name, text)
		}
	}
	return doc, nil
}

// readDate returns a date of a PDF in the form of RFC 3339, as filters compare it; empty for what is none. All but its
// day may be missing.
func readDate(text string) string {
	text, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimPrefix(text, "D:"), "'", ""), "Z")
	if day, err := time.Parse("20060102", text); err == nil {
		return day.Format(time.DateOnly)
	}
	for _, form := range []string{"20060102150405-0700", "20060102150405-07", "20060102150405", "200601021504"} {
		if moment, err := time.Parse(form, text); err == nil {
			return moment.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// readAttachments takes the files that a PDF holds.
func (r *pdfReader) readAttachments(files *document.Attachments) {
	counted, err := r.FPDFDoc_GetAttachmentCount(&requests.FPDFDoc_GetAttachmentCount{Document: r.file})
	if err != nil {
		return
	}
	for index := range counted.AttachmentCount {
		if index >= document.MaxAttached {
			files.More = counted.AttachmentCount - document.MaxAttached
			return
		}
		file, err := r.FPDFDoc_GetAttachment(&requests.FPDFDoc_GetAttachment{Document: r.file, Index: index})
		if err == nil {
			r.readAttachment(files, file.Attachment)
		}
	}
	pages, err := r.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: r.file})
	if err != nil || !r.pinned && !files.Limits.SkipsText() {
		return
	}
	for index := range min(pages.PageCount, files.Limits.Pages) {
		if loaded, err := r.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: r.file, Index: index}); err == nil {
			r.pinnedTo(requests.Page{ByReference: &loaded.Page}, files)
			_, _ = r.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}) // it was read
		}
		if r.inTime() != nil {
			files.Left = append(files.Left, fmt.Sprintf("those behind page %d take too long", index+1))
			return
		}
	}
}

// readAttachment takes a file that a PDF holds.
func (r *pdfReader) readAttachment(files *document.Attachments, file references.FPDF_ATTACHMENT) {
	named, err := r.FPDFAttachment_GetName(&requests.FPDFAttachment_GetName{Attachment: file})
	if err != nil {
		return
	}
	files.Add(named.Name, "attachment", func() []byte {
		got, err := r.FPDFAttachment_GetFile(&requests.FPDFAttachment_GetFile{Attachment: file})
		if err != nil {
			return nil
		}
		return got.Contents
	})
}

// pinnedTo takes the files that are pinned to a page as annotations.
func (r *pdfReader) pinnedTo(page requests.Page, files *document.Attachments) {
	counted, err := r.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: page})
	if err != nil {
		return
	}
	for index := range min(counted.Count, mostNotes) {
		got, err := r.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: page, Index: index})
		if err != nil {
			continue
		}
		file, err := r.FPDFAnnot_GetFileAttachment(&requests.FPDFAnnot_GetFileAttachment{
			Document: r.file, Annotation: got.Annotation,
		})
		if err == nil {
			r.readAttachment(files, file.Attachment)
		}
		_, _ = r.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: got.Annotation}) // it was read
	}
}

// missingPages says which pages of a PDF with text show something, and have no text but headers and footers.
func missingPages(read []*pdfPage, limits document.Limits) string {
	var without, broken, lost []int
	for i, page := range read {
		if page.isScan(limits) {
			continue
		}
		if page.lost {
			lost = append(lost, i+1)
		}
		switch {
		case page.broken:
			broken = append(broken, i+1)
		case page.isTextless() && (!page.lost || len(page.lines) > 0):
			without = append(without, i+1)
		}
	}
	var all []string
	if len(without) > 0 {
		all = append(all, document.NamePages(without, "has", "have")+" no text (scanned images?)")
	}
	if len(broken) > 0 {
		all = append(all, document.NamePages(broken, "is", "are")+" damaged and cannot be read")
	}
	if len(lost) > 0 {
		all = append(all, document.NamePages(lost, "has", "have")+" letters that are left out: "+mute)
	}
	return strings.Join(all, "; ")
}

// mute is why letters are left out.
const mute = "its fonts do not say which letters they show"
