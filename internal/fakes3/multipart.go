package fakes3

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
)

// minPart is the smallest size of a part that is not the last, as S3 has it.
const minPart = 5 << 20

type upload struct {
	key         string
	contentType string
	parts       map[int]object
}

type created struct {
	XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
	Bucket   string
	Key      string
	UploadID string `xml:"UploadId"`
}

type completion struct {
	Parts []struct {
		PartNumber int
		ETag       string
	} `xml:"Part"`
}

type completed struct {
	XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
	Bucket  string
	Key     string
	ETag    string
}

func (s *Server) create(rec *Request) answer {
	s.nextID++
	id := fmt.Sprintf("upload-%d", s.nextID)
	s.uploads[id] = &upload{key: rec.Key, contentType: rec.Header.Get("Content-Type"), parts: map[int]object{}}
	return document(created{Bucket: s.o.Bucket, Key: rec.Key, UploadID: id})
}

func (s *Server) part(rec *Request, data []byte) answer {
	u, ok := s.uploads[rec.Query.Get("uploadId")]
	if !ok || u.key != rec.Key {
		return failure(404, "NoSuchUpload", "The specified upload does not exist.")
	}
	n, err := strconv.Atoi(rec.Query.Get("partNumber"))
	if err != nil || n < 1 || n > 10_000 {
		return failure(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
	}
	o := object{data: data, etag: s.etag(data)}
	u.parts[n] = o
	return answer{status: 200, header: http.Header{"Etag": {o.etag}}}
}

func (s *Server) complete(rec *Request, data []byte) answer {
	id := rec.Query.Get("uploadId")
	u, ok := s.uploads[id]
	if !ok || u.key != rec.Key {
		return failure(404, "NoSuchUpload", "The specified upload does not exist.")
	}
	var list completion
	if err := xml.Unmarshal(data, &list); err != nil || len(list.Parts) == 0 {
		return failure(400, "MalformedXML", "The XML you provided was not well-formed.")
	}
	var whole bytes.Buffer
	for i, p := range list.Parts {
		o, ok := u.parts[p.PartNumber]
		if !ok || o.etag != p.ETag {
			return failure(400, "InvalidPart", "One or more of the specified parts could not be found.")
		}
		if i > 0 && p.PartNumber <= list.Parts[i-1].PartNumber {
			return failure(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
		}
		if i < len(list.Parts)-1 && len(o.data) < minPart {
			return failure(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
		}
		whole.Write(o.data)
	}
	o := object{data: whole.Bytes(), contentType: u.contentType, etag: fmt.Sprintf(`"%s-%d"`, id, len(list.Parts))}
	s.objects[u.key] = o
	delete(s.uploads, id)
	return document(completed{Bucket: s.o.Bucket, Key: u.key, ETag: o.etag})
}
