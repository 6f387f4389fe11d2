mod replaced;
