// Command notes serves notes by HTTP.
package main

import (
	"log"
	"net/http"
	"os"

	"example.org/notes/storage"
	"example.org/notes/web"
)

func main() {
	store := storage.NewStorage()
	if err := store.Put("welcome", "Hello"); err != nil {
		log.Fatal(err)
	}
	address := os.Getenv("NOTES_ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	log.Fatal(http.ListenAndServe(address, web.New(store)))
}
