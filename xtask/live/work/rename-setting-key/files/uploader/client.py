class UploadFailed(Exception):
    pass


class Client:
    def __init__(self, settings, send):
        self.settings = settings
        self.send = send

    def upload(self, name):
        """Sends a file, and returns the number of tries."""
        for number in range(1, self.settings.retry_count + 1):
            if self.send(name, self.settings.timeout):
                return number
        raise UploadFailed(f"{name}: failed {self.settings.retry_count} times (see --retry-count)")
