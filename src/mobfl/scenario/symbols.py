"""The words for the values of a scenario: the letter of the paper, the unit, the meaning."""

from typing import NamedTuple


class Symbol(NamedTuple):
    letter: str
    unit: str
    meaning: str


SYMBOLS = {
    "road.length_m": Symbol("L", "m", "length of the section"),
    "traffic.speed_mps": Symbol("v", "m/s", "mean speed"),
    "traffic.speed_sd_mps": Symbol("", "m/s", "spread of speeds"),
    "traffic.arrivals_per_s": Symbol("λ", "1/s", "arrivals"),
    "traffic.participation": Symbol("", "", "share that takes part"),
    "radio.carrier_ghz": Symbol("f", "GHz", "carrier"),
    "radio.uplink_hz": Symbol("W", "Hz", "band for uploads"),
    "radio.downlink_hz": Symbol("", "Hz", "band for downloads"),
    "radio.vehicle_dbm": Symbol("P", "dBm", "power of a vehicle"),
    "radio.station_dbm": Symbol("", "dBm", "power of the station"),
    "radio.vehicle_gain_dbi": Symbol("", "dBi", "gain of its antenna"),
    "radio.station_gain_dbi": Symbol("", "dBi", "gain of its antenna"),
    "radio.noise_figure_db": Symbol("NF", "dB", "noise of a receiver"),
    "radio.path_loss": Symbol("PL", "", "law of the path loss"),
    "radio.shadowing_db": Symbol("σ", "dB", "spread of the shadowing"),
    "radio.shadowing_m": Symbol("", "m", "way until it is forgotten"),
    "radio.hidden_share": Symbol("", "", "share behind another vehicle"),
    "radio.fading": Symbol("", "", "fast fading"),
    "radio.efficiency": Symbol("", "", "share without overhead"),
    "radio.most_bps_per_hz": Symbol("C", "bit/s/Hz", "most that is sent"),
    "radio.station_along_m": Symbol("", "m", "the station along the way"),
    "radio.station_beside_m": Symbol("", "m", "the station beside the lane"),
    "radio.station_above_m": Symbol("", "m", "above vehicles' antennas"),
    "radio.sharing": Symbol("", "", "how the band is shared"),
    "radio.download": Symbol("", "", "how the model goes down"),
    "link.model_bytes": Symbol("", "bytes", "size of the model"),
    "link.download_bytes": Symbol("", "bytes", "what travels down, if not the model alone"),
    "link.upload_bytes": Symbol("", "bytes", "what travels up, if not the model as it is"),
    "link.downlink_bps": Symbol("", "bit/s", "rate of the download"),
    "link.uplink_bps": Symbol("", "bit/s", "rate of the upload"),
    "link.download_s": Symbol("τ_down", "s", "download of the model"),
    "link.upload_s": Symbol("τ_up", "s", "upload of the model"),
    "compute.law": Symbol("", "", "law of the random part of a step"),
    "compute.step_samples": Symbol("", "s", "measured times of a local step"),
    "compute.min_step_s": Symbol("α", "s", "least time of a local step"),
    "compute.extra_step_s": Symbol("β", "s", "mean random time on top"),
    "compute.extra_sd_s": Symbol("", "s", "spread of a lognormal random part"),
    "training.learning_rate": Symbol("η", "", "learning rate"),
    "training.decay_to": Symbol("", "", "share of the learning rate at the end"),
    "training.momentum": Symbol("", "", "momentum"),
    "training.batch_size": Symbol("B", "samples", "samples in a local step"),
    "training.samples_per_vehicle": Symbol("D_m", "samples", "samples of a vehicle"),
    "training.duration_s": Symbol("T_A", "s", "duration of the training"),
    "training.loss_scale": Symbol("", "", "what the loss is averaged over"),
    "training.split": Symbol("", "", "how samples go to vehicles"),
    "training.dirichlet_alpha": Symbol("", "", "concentration of a dirichlet split"),
    "training.alike": Symbol("", "", "share of the samples that are dealt to districts at random"),
    "training.falling_to": Symbol("", "", "share of the local steps at the end"),
    "training.average_s": Symbol("", "s", "time constant of the model that is served"),
    "training.noise_uploads": Symbol("ν", "", "uploads that are worth half a round"),
    "energy.transmit_w": Symbol("", "W", "power while a vehicle uploads"),
    "energy.compute_w": Symbol("", "W", "power while a vehicle trains"),
    "energy.capacitance": Symbol("κ", "F", "effective capacitance of its processor"),
    "energy.clock_hz": Symbol("f", "Hz", "its clock"),
}
