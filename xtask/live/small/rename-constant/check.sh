! grep -rn MAX_SIZE *.py && python3 -c "import settings, upload; assert settings.SIZE_LIMIT == 100 and upload.fits(100) and not upload.fits(101)"
