"""What is learnt from: task, local training, rules, codecs, who holds which samples. Nothing here knows of roads."""
