! grep -n MAX_SIZE *.py && python3 -c 'import upload; upload.fits(1)'
